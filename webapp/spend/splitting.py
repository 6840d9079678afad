"""Splits the costs of the UTC days in which a month begins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from django.db.models import QuerySet

from advisor.costing.charges import Charge, DayCharges, from_document
from advisor.costing.cost import Interval, merge_intervals
from webapp.analysis.models import CostPart
from webapp.runs.models import Session

DAY, MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
_OF_PART = ("day", "usd", "microseconds", "charges", "node")
_OF_RUN = ("run__job", "run__owner", "run__tags", "run__job__tags")


class CutRun(NamedTuple):
    """Run that has a cost."""

    job_id: int
    owner: str
    tags: dict[str, str]
    job_tags: dict[str, str]

    @property
    def all_tags(self) -> dict[str, str]:
        """Return the run's tags, with its job's for other keys."""
        return {**self.job_tags, **self.tags}


class CutPart(NamedTuple):
    """The cost of a node on a UTC day in which a span begins or ends. Of each day there may be
    thousands, so not as models."""

    day: date
    usd: Decimal
    microseconds: int
    charges: dict[str, Any] | None
    node_id: int
    run: CutRun | None
    held: tuple[Interval, ...] = ()
    """The intervals of its sessions; only if the charges aren't known."""

    @property
    def of_run(self) -> CutRun:
        """Return the run. Raises ValueError for a part that was read without its run."""
        if self.run is None:
            raise ValueError("read with_runs=True")
        return self.run


def cut_days(
    parts: QuerySet[CostPart], *moments: datetime, with_runs: bool = False
) -> list[CutPart]:
    """Return the costs of the UTC days that contain these moments."""
    days = {moment.astimezone(UTC).date() for moment in moments if not _is_midnight(moment)}
    rows = parts.filter(day__in=days).values_list(*_OF_PART, *(_OF_RUN if with_runs else ()))
    cut = [
        CutPart(day, usd, microseconds, charges, node_id, CutRun(*run) if run else None)
        for day, usd, microseconds, charges, node_id, *run in rows
    ]
    held = _held({part.node_id for part in cut if part.charges is None})
    return [
        part._replace(held=tuple(held[part.node_id])) if part.charges is None else part
        for part in cut
    ]


def _held(nodes: Collection[int]) -> dict[int, list[Interval]]:
    held: defaultdict[int, list[Interval]] = defaultdict(list)
    for session in Session.objects.filter(node__in=nodes) if nodes else ():
        held[session.node_id].append(session.interval)
    return held


def cut_to_span(part: CutPart, start: datetime, end: datetime) -> Decimal:
    """Return the part of a day's cost that belongs to the span."""
    return _usd_before(part, end) - _usd_before(part, start)


def midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _usd_before(part: CutPart, moment: datetime) -> Decimal:
    """Return the part of the cost before the moment. Few costs are of a time that contains it: the
    others needn't be split.
    """
    at = (moment - midnight(part.day)) // MICROSECOND
    if at <= 0:
        return Decimal(0)
    held = part.charges["charges"] if part.charges is not None else []
    if held and all(at >= end for _, end, _ in held):
        return part.usd
    if held and all(at <= start for start, _, _ in held):
        return Decimal(0)
    return _charges(part).usd_before(moment)


def _charges(part: CutPart) -> DayCharges:
    if part.charges is not None:
        return from_document(part.day, part.charges)
    held = merge_intervals(_within_day(part))
    length = sum((end - start for start, end in held), timedelta())
    if not length:
        # A minimum, of a machine that was held for no time or on the day before.
        start = held[0][0] if held else midnight(part.day)
        length = timedelta(microseconds=part.microseconds)
        held = [(start, start + length)]
    return _spread(part.usd, held, length)


def _spread(usd: Decimal, held: Iterable[Interval], length: timedelta) -> DayCharges:
    """Spread the cost of an earlier version, which didn't keep what each second cost, by time
    alone.
    """
    if not length:
        return DayCharges(Fraction(0), ())
    rate = Fraction(usd) * Fraction(timedelta(hours=1) // MICROSECOND, length // MICROSECOND)
    return DayCharges(Fraction(0), tuple(Charge(start, end, rate) for start, end in held))


def _within_day(part: CutPart) -> Iterator[Interval]:
    day_start = midnight(part.day)
    for began, ended in part.held:
        if began < day_start + DAY and ended > day_start:
            yield max(began, day_start), min(ended, day_start + DAY)


def _is_midnight(moment: datetime) -> bool:
    return moment == midnight(moment.astimezone(UTC).date())

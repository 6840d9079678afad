"""Splits the costs of the UTC days in which a month begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction

from django.db.models import QuerySet, prefetch_related_objects

from advisor.costing.charges import Charge, DayCharges, from_document
from advisor.costing.cost import Interval, merged
from webapp.analysis.models import CostPart

DAY, MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
_CUT = ("day", "usd", "microseconds", "charges", "node", "run")
_OF_RUN = ("run__job", "run__job__tags", "run__owner", "run__tags")
"""The columns that are read, because the rows of runs and nodes are wide."""


def cut_days(
    parts: QuerySet[CostPart], *moments: datetime, with_runs: bool = False
) -> list[CostPart]:
    """The costs of the UTC days that contain these moments."""
    days = {moment.astimezone(UTC).date() for moment in moments if not _is_midnight(moment)}
    inside = parts.filter(day__in=days).only(*_CUT, *(_OF_RUN if with_runs else ()))
    cut = list(inside.select_related("run__job") if with_runs else inside)
    prefetch_related_objects([part for part in cut if part.charges is None], "node__sessions")
    return cut


def between(part: CostPart, start: datetime, end: datetime) -> Decimal:
    """The part of a day's cost that belongs to the span."""
    return _usd_before(part, end) - _usd_before(part, start)


def midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _usd_before(part: CostPart, moment: datetime) -> Decimal:
    """Few costs are of a time that contains the moment: the others needn't be split."""
    held = part.charges["charges"] if part.charges is not None else []
    at = (moment - midnight(part.day)) // MICROSECOND
    if held and all(at >= end for _, end, _ in held):
        return part.usd
    if held and all(at <= start for start, _, _ in held):
        return Decimal(0)
    return _charges(part).usd_before(moment)


def _charges(part: CostPart) -> DayCharges:
    if part.charges is not None:
        return from_document(part.day, part.charges)
    held = merged(_held(part))
    length = sum((end - start for start, end in held), timedelta())
    if not length:
        # A minimum, of a machine that was held for no time or on the day before.
        start = held[0][0] if held else midnight(part.day)
        length = timedelta(microseconds=part.microseconds)
        held = [(start, start + length)]
    return _spread(part.usd, held, length)


def _spread(usd: Decimal, held: Iterable[Interval], length: timedelta) -> DayCharges:
    """A cost of an earlier version, which didn't keep what each second cost: by time alone."""
    if not length:
        return DayCharges(Fraction(0), ())
    rate = Fraction(usd) * Fraction(timedelta(hours=1) // MICROSECOND, length // MICROSECOND)
    return DayCharges(Fraction(0), tuple(Charge(start, end, rate) for start, end in held))


def _held(part: CostPart) -> Iterator[Interval]:
    day_start = midnight(part.day)
    for session in part.node.sessions.all():
        began, ended = session.interval
        if began < day_start + DAY and ended > day_start:
            yield max(began, day_start), min(ended, day_start + DAY)


def _is_midnight(moment: datetime) -> bool:
    return moment == midnight(moment.astimezone(UTC).date())

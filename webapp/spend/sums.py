"""Spend between two moments, by job, owner and tags: exact sums in nano-USD.

Costs are kept per node and UTC day, but months can begin at any time of a UTC day. The database
sums the whole days. The few costs of the first and last day are split at that moment, each second
at what it cost.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

from django.db.models import (
    Aggregate,
    Count,
    ExpressionWrapper,
    F,
    Q,
    QuerySet,
    Sum,
    TextField,
)
from django.db.models.expressions import Combinable

from webapp.accounts.models import Workspace
from webapp.runs.models import Run
from webapp.runs.scope import every_job_of, runs_of
from webapp.spend.scope import priced_parts_of
from webapp.spend.splitting import DAY, cut_days, cut_to_span, midnight

JOB_ID, OWNER, TAGS = "job_id", "owner", "tags"
GROUP = (JOB_ID, OWNER, TAGS)


@dataclass
class Spend:
    """The spend of a job's runs with the same owner and tags, in a time span.

    A run is counted when it began. Its cost is counted when it held its machines.
    """

    job: str
    job_id: int
    owner: str
    tags: dict[str, str]
    usd: Decimal | None = None
    """The exact sum; None if no run has a price."""
    run_count: int = 0
    unpriced_count: int = 0
    billed_usd: Decimal | None = None
    """The sum of the billed amounts that were entered."""
    counted_usd: Decimal | None = None
    """The whole cost of the runs with a billed amount, for comparison."""

    def counting(self, row: Mapping[str, Any]) -> Spend:
        """Add the runs that a database row counted; none for an empty row."""
        self.run_count, self.unpriced_count = row.get("runs", 0), row.get("unpriced", 0)
        self.billed_usd, self.counted_usd = row.get("billed"), row.get("counted")
        return self


class Spends:
    """Entries by job and, if asked for, the runs' owner and tags. The names of jobs are read
    once, not with each run."""

    def __init__(self, workspace: Workspace, group: Sequence[str]) -> None:
        self._workspace, self.group = workspace, group
        self._by_group: dict[tuple[object, ...], Spend] = {}

    def entry_of(self, row: Mapping[str, Any]) -> Spend:
        """Return the entry for a row with the columns of the group."""
        group = {name: row[name] for name in self.group}
        key = tuple(str(value) for value in group.values())
        if key not in self._by_group:
            self._by_group[key] = self._new(**group)
        return self._by_group[key]

    def all(self) -> list[Spend]:
        return list(self._by_group.values())

    def _new(self, job_id: int, owner: str = "", tags: Mapping[str, str] | None = None) -> Spend:
        name, job_owner, job_tags = self._jobs[job_id]
        return Spend(name, job_id, owner or job_owner, {**job_tags, **(tags or {})})

    @cached_property
    def _jobs(self) -> dict[int, tuple[str, str, dict[str, str]]]:
        """Name, owner and tags by id."""
        jobs, decoded = every_job_of(self._workspace), cache(json.loads)
        rows = jobs.values_list("pk", "name", OWNER, _text(TAGS))
        return {pk: (name, owner, decoded(tags)) for pk, name, owner, tags in rows}


def spends(
    workspace: Workspace, start: datetime, end: datetime, group: Sequence[str] = GROUP
) -> list[Spend]:
    """Return the spend, and the runs that began, between `start` and `end`.

    Args:
        group: of `GROUP`, by which the runs are told apart. Without the owner or the tags, those of
            the entries are the jobs' own.
    """
    sums, decoded = Spends(workspace, group), cache(json.loads)

    def of(row: Mapping[str, Any]) -> Spend:
        told = {name: row[f"of_{name}"] for name in group}
        return sums.entry_of(told | {TAGS: decoded(told[TAGS])} if TAGS in told else told)

    parts = priced_parts_of(workspace)
    for row in _runs(runs_of(workspace), start, end, group):
        of(row).counting(row)
    grouped: QuerySet[Any, Any] = parts.filter(in_whole_days(start, end)).order_by()
    for row in grouped.values(**_told_apart(group, "run__")).annotate(sum_usd=Sum("usd")):
        _add(of(row), row["sum_usd"])
    for part in cut_days(parts, start, end, with_runs=True):
        _add(sums.entry_of(part.of_run._asdict()), cut_to_span(part, start, end))
    return sums.all()


@dataclass(frozen=True)
class Edge:
    """Amount that isn't in the sums of whole days: the cost of a node on the first or last UTC day
    that belongs to the span, or runs that began in it and have no price.
    """

    job_id: int
    tags: dict[str, str]
    usd: Decimal = Decimal(0)
    unpriced_count: int = 0


def edges(
    workspace: Workspace, start: datetime, end: datetime, jobs: Collection[int] | None = None
) -> list[Edge]:
    """Return the edges of a span.

    Args:
        jobs: ids of the only ones that matter; None: all do.
    """
    unpriced, parts = runs_of(workspace).filter(cost_usd=None), priced_parts_of(workspace)
    if jobs is not None:
        unpriced, parts = unpriced.filter(job__in=jobs), parts.filter(run__job__in=jobs)
    began = unpriced.filter(started_at__gte=start, started_at__lt=end).select_related(None)
    counts = began.order_by().values_list(JOB_ID, TAGS, "job__tags").annotate(Count("pk"))
    found = [
        Edge(job_id, {**of_job, **tags}, unpriced_count=count)
        for job_id, tags, of_job, count in counts
    ]
    for part in cut_days(parts, start, end, with_runs=True):
        run = part.of_run
        found.append(Edge(run.job_id, run.all_tags, cut_to_span(part, start, end)))
    return found


def usd_by_day(workspace: Workspace, *edges: datetime) -> list[dict[date, Decimal]]:
    """Return the spend on each UTC day: one entry for each span between two successive `edges`."""
    parts = priced_parts_of(workspace)
    # One range of an index: the days between two spans are few, and aren't used.
    whole = parts.filter(in_whole_days(edges[0], edges[-1]))
    sums = dict(whole.order_by().values_list("day").annotate(Sum("usd")))
    cut = cut_days(parts, *edges)
    by_span: list[dict[date, Decimal]] = []
    for start, end in pairwise(edges):
        first, after = whole_days(start, end)
        by_day = {day: usd for day, usd in sums.items() if first <= day < after}
        for part in cut:
            if usd := cut_to_span(part, start, end):
                by_day[part.day] = by_day.get(part.day, Decimal(0)) + usd
        by_span.append(by_day)
    return by_span


def whole_days(start: datetime, end: datetime) -> tuple[date, date]:
    """Return the first UTC day that is entirely within the span, and the day after the last one."""
    day = start.astimezone(UTC).date()
    first = day if midnight(day) == start else day + DAY
    return first, end.astimezone(UTC).date()


def in_whole_days(start: datetime, end: datetime) -> Q:
    """Return a filter for the costs of those days."""
    first, after = whole_days(start, end)
    return Q(day__gte=first, day__lt=after)


def _runs(
    runs: QuerySet[Run], start: datetime, end: datetime, group: Sequence[str]
) -> QuerySet[Any, Any]:
    """Return the runs that began in the span, grouped."""
    began: QuerySet[Any, Any] = runs.filter(started_at__gte=start, started_at__lt=end)
    plain = began.select_related(None).order_by()
    rows: QuerySet[Any, Any] = plain.values(**_told_apart(group)).annotate(**run_counts())
    return rows


def _told_apart(group: Sequence[str], prefix: str = "") -> dict[str, Combinable]:
    """Return `of_` and its name for each column of the group, tags as text."""
    return {
        f"of_{name}": _text(f"{prefix}{name}") if name == TAGS else F(f"{prefix}{name}")
        for name in group
    }


def _text(name: str) -> Combinable:
    """Return a JSON column as text: many rows have the same, so each text is decoded once."""
    return ExpressionWrapper(F(name), output_field=TextField())


def run_counts() -> dict[str, Aggregate]:
    """Return what `Spend` says of the runs that began in a span."""
    return {
        "runs": Count("pk"),
        "unpriced": Count("pk", filter=Q(cost_usd=None)),
        "billed": Sum("billed_usd"),
        "counted": Sum("cost_usd", filter=Q(billed_usd__isnull=False)),
    }


def _add(spend: Spend, usd: Decimal) -> None:
    spend.usd = usd if spend.usd is None else spend.usd + usd

"""Spend between two moments, by job, owner and tags: exact sums in nano-USD.

Costs are kept per node and UTC day, but months can begin at any time of a UTC day. The database
sums the whole days. The few costs of the first and last day are split at that moment, each second
at what it cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum

from webapp.accounts.models import Workspace
from webapp.runs.models import Run
from webapp.runs.scope import runs_of
from webapp.spend.scope import priced_parts_of
from webapp.spend.splitting import DAY, between, cut_days, midnight

GROUP = ("job_id", "owner", "tags")


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
    """Exact; None: no run has a price."""
    run_count: int = 0
    unpriced_count: int = 0
    billed_usd: Decimal | None = None
    """The sum of the billed amounts that were entered."""
    counted_usd: Decimal | None = None
    """The whole cost of the runs with a billed amount, for comparison."""

    def counting(self, row: Mapping[str, Any]) -> Spend:
        """With the runs that a database row counted; an empty row: none."""
        self.run_count, self.unpriced_count = row.get("runs", 0), row.get("unpriced", 0)
        self.billed_usd, self.counted_usd = row.get("billed"), row.get("counted")
        return self


@dataclass
class Spends:
    """Entries by job, owner and tags."""

    by_group: dict[tuple[object, ...], Spend] = field(default_factory=dict)

    def of(self, group: dict[str, Any], prefix: str = "") -> Spend:
        """The entry for a row."""
        job_id, owner, tags = (group[f"{prefix}{name}"] for name in GROUP)
        name = (job_id, owner, *sorted(tags.items()))
        if name not in self.by_group:
            self.by_group[name] = Spend(
                job=group[f"{prefix}job__name"],
                job_id=job_id,
                owner=owner or group[f"{prefix}job__owner"],
                tags={**group[f"{prefix}job__tags"], **tags},
            )
        return self.by_group[name]


def spends(workspace: Workspace, start: datetime, end: datetime) -> list[Spend]:
    """The spend, and the runs that began, between `start` and `end`."""
    sums = Spends()
    parts = priced_parts_of(workspace)
    for row in _runs(runs_of(workspace), start, end):
        sums.of(row).counting(row)
    grouped = parts.filter(in_whole_days(start, end)).order_by().values(*columns("run__"))
    for row in grouped.annotate(sum_usd=Sum("usd")):
        _add(sums.of(row, "run__"), row["sum_usd"])
    for part in cut_days(parts, start, end, with_runs=True):
        _add(sums.of(_group_of(part.run)), between(part, start, end))
    return list(sums.by_group.values())


def edges(workspace: Workspace, start: datetime, end: datetime) -> list[Spend]:
    """What isn't in the sums of whole days: costs of the first and last UTC day that belong to the
    span, and runs that began in it and have no price."""
    sums = Spends()
    unpriced = runs_of(workspace).filter(cost_usd=None)
    for row in _runs(unpriced, start, end):
        sums.of(row).counting(row)
    for part in cut_days(priced_parts_of(workspace), start, end, with_runs=True):
        _add(sums.of(_group_of(part.run)), between(part, start, end))
    return list(sums.by_group.values())


def usd_by_day(workspace: Workspace, *edges: datetime) -> list[dict[date, Decimal]]:
    """The spend on each UTC day: one entry for each span between two successive `edges`."""
    parts, spans = priced_parts_of(workspace), list(pairwise(edges))
    whole = reduce(or_, (in_whole_days(start, end) for start, end in spans))
    grouped = parts.filter(whole).order_by().values("day").annotate(sum_usd=Sum("usd"))
    sums = {row["day"]: row["sum_usd"] for row in grouped}
    cut = cut_days(parts, *edges)
    by_span: list[dict[date, Decimal]] = []
    for start, end in spans:
        first, after = whole_days(start, end)
        by_day = {day: usd for day, usd in sums.items() if first <= day < after}
        for part in cut:
            if usd := between(part, start, end):
                by_day[part.day] = by_day.get(part.day, Decimal(0)) + usd
        by_span.append(by_day)
    return by_span


def whole_days(start: datetime, end: datetime) -> tuple[date, date]:
    """The first UTC day that is entirely within the span, and the day after the last one."""
    day = start.astimezone(UTC).date()
    first = day if midnight(day) == start else day + DAY
    return first, end.astimezone(UTC).date()


def in_whole_days(start: datetime, end: datetime) -> Q:
    """A filter for the costs of those days."""
    first, after = whole_days(start, end)
    return Q(day__gte=first, day__lt=after)


def _runs(runs: QuerySet[Run], start: datetime, end: datetime) -> Iterable[dict[str, Any]]:
    """The runs that began in the span, grouped."""
    began = runs.filter(started_at__gte=start, started_at__lt=end)
    billed = Q(billed_usd__isnull=False)
    grouped: Iterable[dict[str, Any]] = (
        began.select_related(None)
        .order_by()
        .values(*columns(""))
        .annotate(
            runs=Count("pk"),
            unpriced=Count("pk", filter=Q(cost_usd=None)),
            billed=Sum("billed_usd", filter=billed),
            counted=Sum("cost_usd", filter=billed),
        )
    )
    return grouped


def columns(prefix: str) -> list[str]:
    """Of a group, for `Spends.of`."""
    return [f"{prefix}{name}" for name in (*GROUP, "job__name", "job__owner", "job__tags")]


def _group_of(run: Run) -> dict[str, Any]:
    own = {"job_id": run.job_id, "owner": run.owner, "tags": run.tags}
    of_job = {"job__name": run.job.name, "job__owner": run.job.owner, "job__tags": run.job.tags}
    return own | of_job


def _add(spend: Spend, usd: Decimal) -> None:
    spend.usd = usd if spend.usd is None else spend.usd + usd

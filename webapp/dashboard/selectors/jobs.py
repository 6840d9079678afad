"""The list of jobs. The number of queries doesn't depend on the number of jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, F, Max, OuterRef, QuerySet, Subquery, Sum, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from advisor.costing.projection import Projection
from webapp.advice.selectors.recommendations import open_saving_usd
from webapp.database.money import UsdField
from webapp.runs.models import Job, Run, began

SPEND_DAYS = 30
TREND_RUNS = 20
SORTS = {
    "name": ("name",),
    "last": ("-last_at", "name"),
    "runs": ("-run_count", "name"),
    "spend": ("-spend_usd", "name"),
    "saving": ("-saving_usd", "name"),
}


@dataclass(frozen=True)
class JobRow:
    """One line of the list. `trend` is the cost of the latest runs in USD, oldest first."""

    job: Job
    last_run: Run | None
    run_count: int
    spend_usd: Decimal | None
    unpriced_count: int
    saving_usd: Decimal | None
    trend: list[float] = field(default_factory=list)

    @property
    def projected(self) -> Projection | None:
        """What the last run will have cost; None: it has ended, or its total isn't known."""
        last = self.last_run
        return last.summary.projected if last and last.state == Run.RUNNING else None

    @property
    def owner(self) -> str:
        """The last run's owner, else the job's."""
        return (self.last_run.owner if self.last_run else "") or self.job.owner

    @property
    def tags(self) -> dict[str, str]:
        """The last run's tags, and the job's for other keys."""
        return {**self.job.tags, **(self.last_run.tags if self.last_run else {})}


@dataclass(frozen=True)
class Totals:
    job_count: int
    run_count: int
    spend_usd: Decimal | None
    unpriced_count: int
    saving_usd: Decimal | None


def listed(jobs: QuerySet[Job], runs: QuerySet[Run], sort: str) -> QuerySet[Job]:
    """The jobs, each with the figures of its runs in `runs`."""
    runs = runs.select_related(None)
    # When it ran, not when it was uploaded: old runs can be imported.
    since = timezone.now() - timedelta(days=SPEND_DAYS)
    recent = runs.alias(began=began()).filter(began__gte=since)
    return jobs.annotate(
        run_count=_per_job(runs, Count("*")),
        unpriced_count=_per_job(recent.filter(cost_usd=None), Count("*")),
        spend_usd=_per_job(recent, Sum("cost_usd"), UsdField()),
        last_at=_per_job(runs, Max(began())),
        saving_usd=open_saving_usd(),
    ).order_by(*[_nulls_last(name) for name in SORTS[sort]])


def rows(jobs: Iterable[Job], runs: QuerySet[Run]) -> list[JobRow]:
    """The page's jobs with their last run and cost trend."""
    jobs = list(jobs)
    latest = _latest_runs(jobs, runs.filter(probe__isnull=True))
    last = Run.objects.in_bulk([costs[0].run_id for costs in latest.values()])
    return [_row(job, latest[job.pk], last) for job in jobs]


def totals(jobs: QuerySet[Job]) -> Totals:
    """Totals of all listed jobs, not only the page's."""
    sums = jobs.order_by().aggregate(
        job_count=Count("pk"),
        runs=Sum("run_count"),
        spend=Sum("spend_usd"),
        unpriced=Sum("unpriced_count"),
        saving=Sum("saving_usd"),
    )
    return Totals(
        job_count=sums["job_count"],
        run_count=sums["runs"] or 0,
        spend_usd=sums["spend"],
        unpriced_count=sums["unpriced"] or 0,
        saving_usd=sums["saving"],
    )


class _RunCost(NamedTuple):
    run_id: UUID
    job_id: int
    cost_usd: Decimal | None


def _row(job: Job, latest: list[_RunCost], runs: dict[UUID, Run]) -> JobRow:
    return JobRow(
        job=job,
        last_run=runs.get(latest[0].run_id) if latest else None,
        run_count=job.run_count or 0,  # type: ignore[attr-defined]
        spend_usd=job.spend_usd,  # type: ignore[attr-defined]
        unpriced_count=job.unpriced_count or 0,  # type: ignore[attr-defined]
        saving_usd=job.saving_usd,  # type: ignore[attr-defined]
        trend=[float(run.cost_usd) for run in reversed(latest) if run.cost_usd is not None],
    )


def _latest_runs(jobs: list[Job], runs: QuerySet[Run]) -> dict[int, list[_RunCost]]:
    """The cost of each job's latest runs, newest first, in one query. It reads the sort keys of all
    runs, but the cost of the latest only."""
    order = (began().desc(), F("number").desc())
    newest = Window(RowNumber(), partition_by=F("job_id"), order_by=order)
    placed = runs.select_related(None).filter(job__in=jobs).annotate(place=newest)
    latest = placed.filter(place__lte=TREND_RUNS).order_by().values("pk")
    costs = Run.objects.filter(pk__in=latest).order_by("job_id", *order)
    by_job: dict[int, list[_RunCost]] = defaultdict(list)
    for run in map(_RunCost._make, costs.values_list("pk", "job_id", "cost_usd")):
        by_job[run.job_id].append(run)
    return by_job


def _per_job(runs: QuerySet[Run], figure, output_field=None) -> Subquery:  # type: ignore[no-untyped-def]
    """One figure of a job's runs. A subquery: two joins would count each run many times."""
    own = runs.filter(job=OuterRef("pk")).order_by().values("job").annotate(figure=figure)
    return Subquery(own.values("figure"), output_field=output_field)


def _nulls_last(name: str):  # type: ignore[no-untyped-def]
    column = F(name.removeprefix("-"))
    return column.desc(nulls_last=True) if name.startswith("-") else column.asc(nulls_last=True)

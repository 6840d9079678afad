"""The list of jobs. The number of queries doesn't depend on the number of jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from django.db.models import (
    Aggregate,
    Count,
    F,
    FloatField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Window,
)
from django.db.models.expressions import OrderBy
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, RowNumber
from django.utils import timezone

from advisor.costing.projection import Projection
from webapp.accounts.models import Workspace
from webapp.advice.selectors.recommendations import open_saving_usd, open_savings_usd
from webapp.analysis.models import Regression
from webapp.analysis.scope import every_open_regression_of
from webapp.analysis.selectors.verdict import RunVerdict, verdict_of
from webapp.analysis.selectors.work import WorkUnit, common_unit
from webapp.runs.models import Job, Run, began

Rows = QuerySet[Any, dict[str, Any]]
SPEND_DAYS = 30
TREND_RUNS = 20
NO_RUNS = {"run_count": 0, "spend_usd": None, "unpriced_count": 0}
_NEWEST = (began().desc(), F("number").desc())
_SHOWN = (
    *("job_id", "number", "owner", "tags", "state", "started_at", "created_at", "cost_usd"),
    "summary",
)
"""The columns that the list shows of a run: its row is wide."""


@dataclass(frozen=True)
class Trend:
    """The cost of the latest finished runs in USD, oldest first."""

    usd: list[float]
    unit: WorkUnit | None
    """The amount of work that the cost refers to; None for whole runs."""

    @property
    def per(self) -> str:
        return str(self.unit) if self.unit else "run"


@dataclass(frozen=True)
class JobRow:
    """One line of the list."""

    job: Job
    last_run: Run | None
    run_count: int
    spend_usd: Decimal | None
    unpriced_count: int
    saving_usd: Decimal | None
    verdict: RunVerdict | None
    """The verdict on the last finished run; None if it wasn't compared."""
    regression: Regression | None
    """The open regression."""
    running_count: int
    """The number of running runs."""

    @property
    def is_running_beside(self) -> bool:
        """Return whether runs are running that the last run's state doesn't show."""
        last = self.last_run
        return self.running_count > int(last is not None and last.state == Run.RUNNING)

    @property
    def projected(self) -> Projection | None:
        """Return what the last run will have cost; None if it has ended, or its total isn't
        known.
        """
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


def list_jobs(
    workspace: Workspace,
    jobs: QuerySet[Job],
    runs: QuerySet[Run],
    figures: Sequence[str],
    *,
    is_turned: bool,
) -> QuerySet[Job]:
    """Return the jobs in order, by figures of their runs in `runs`.

    Args:
        figures: as `JobColumn.order` has them.
        is_turned: True for the other order than theirs.
    """
    order = [_nulls_last(name, is_reversed=is_turned) for name in figures]
    asked = (name.removeprefix("-") for name in figures)
    plain = runs.select_related(None)
    by = {name: _sort_key(workspace, plain, name) for name in asked if name != "name"}
    return jobs.annotate(**by).order_by(*order, "name")


def _sort_key(workspace: Workspace, runs: QuerySet[Run], name: str) -> Subquery:
    """Return the figure by which the list is sorted. It reads the rows of all jobs, so a list
    computes no other.
    """
    figures = {**sums(), "last_at": Max("began")}
    if name in figures:
        return _per_job(runs, figures[name])
    if name == "saving_usd":
        return open_saving_usd()
    if name == "regression_usd":
        opened = every_open_regression_of(workspace).filter(job=OuterRef("pk"))
        return Subquery(opened.values("extra_usd")[:1])
    newest = _ordinary(runs).filter(job=OuterRef("pk")).order_by(*_NEWEST)
    if name == "last_usd":
        return Subquery(newest.values("cost_usd")[:1])
    change = Cast(KT("summary__verdict__change"), FloatField())
    return Subquery(newest.filter(state=Run.FINISHED).values(change=change)[:1])


def rows(workspace: Workspace, jobs: Iterable[Job], runs: QuerySet[Run]) -> list[JobRow]:
    """Return the page's jobs with the sums of their runs, their last run and its verdict."""
    jobs = list(jobs)
    latest = _latest_runs(jobs, runs)
    opened = every_open_regression_of(workspace).filter(job__in=jobs)
    regressions = {row.job_id: row for row in opened}
    running, summed = _running_counts(jobs, runs), _summed(jobs, runs)
    savings = open_savings_usd(jobs)
    return [
        JobRow(
            job=job,
            **_of_latest(latest[job.pk]),
            **summed.get(job.pk, NO_RUNS),
            saving_usd=savings.get(job.pk),
            regression=regressions.get(job.pk),
            running_count=running.get(job.pk, 0),
        )
        for job in jobs
    ]


def trends(jobs: Iterable[Job], runs: QuerySet[Run]) -> dict[int, Trend]:
    """Return each job's trend, of the finished ones of its latest runs, in one query. It reads the
    sort keys of all runs, but cost and work of the latest only.
    """
    jobs = list(jobs)
    newest = Window(RowNumber(), partition_by=F("job_id"), order_by=_NEWEST)
    placed = _ordinary(runs).filter(job__in=jobs).annotate(place=newest)
    latest = Run.objects.filter(pk__in=placed.filter(place__lte=TREND_RUNS).order_by().values("pk"))
    finished = latest.filter(state=Run.FINISHED).order_by(began(), "number")
    by_job: dict[int, list[_Done]] = defaultdict(list)
    for job_id, *done in finished.values_list("job_id", *_Done._fields):
        by_job[job_id].append(_Done(*done))
    return {job.pk: _trend(by_job[job.pk]) for job in jobs}


def sums() -> dict[str, Aggregate]:
    """Return the sums of runs, each with its `began`, for a list's line and its totals."""
    # When it ran, not when it was uploaded: old runs can be imported.
    recent = Q(began__gte=timezone.now() - timedelta(days=SPEND_DAYS))
    return {
        "run_count": Count("job"),
        "spend_usd": Sum("cost_usd", filter=recent),
        "unpriced_count": Count("job", filter=recent & Q(cost_usd=None)),
    }


def _summed(jobs: list[Job], runs: QuerySet[Run]) -> dict[int, dict[str, Any]]:
    own = runs_with_start(runs.filter(job__in=jobs)).values("job").annotate(**sums())
    return {row.pop("job"): row for row in own}


def runs_with_start(runs: QuerySet[Run]) -> QuerySet[Any, Any]:
    """Return the plain runs, each with its `began`."""
    return runs.select_related(None).order_by().alias(began=began())


def _running_counts(jobs: list[Job], runs: QuerySet[Run]) -> dict[int, int]:
    own = runs.filter(state=Run.RUNNING, job__in=jobs).select_related(None).order_by()
    return dict(own.values_list("job_id").annotate(Count("pk")))


def totals(jobs: QuerySet[Job], runs: QuerySet[Run]) -> Totals:
    """Return the totals of all listed jobs and their runs, not only the page's."""
    savings = jobs.order_by().annotate(saving=open_saving_usd())
    counted = savings.aggregate(job_count=Count("pk"), saving_usd=Sum("saving"))
    return Totals(**counted, **runs_with_start(runs).aggregate(**sums()))


class _Done(NamedTuple):
    """Figures that a trend takes from each run: many, so not as models."""

    cost_usd: Decimal | None
    work: dict[str, float]


def _trend(finished: Sequence[_Done]) -> Trend:
    unit = common_unit(finished)
    costs = (unit.cost_usd(run) if unit else run.cost_usd for run in finished)
    return Trend([float(usd) for usd in costs if usd is not None], unit)


def _of_latest(latest: Sequence[Run]) -> dict[str, Any]:
    """Return the fields of a line that its job's last run, and the last that has finished,
    determine.
    """
    finished = next((run for run in latest if run.state == Run.FINISHED), None)
    return {
        "last_run": max(latest, key=lambda run: (run.began_at, run.number), default=None),
        "verdict": verdict_of(finished) if finished else None,
    }


def _latest_runs(jobs: list[Job], runs: QuerySet[Run]) -> dict[int, list[Run]]:
    """Return each job's last run, and the last that has finished among those of its trend."""
    ordinary = _ordinary(runs).order_by(*_NEWEST)
    of_trend = ordinary.filter(job=OuterRef("job")).values("pk")[:TREND_RUNS]
    own = ordinary.filter(job=OuterRef("pk")).values("pk")
    finished = own.filter(state=Run.FINISHED, pk__in=of_trend)
    of_jobs = Job.objects.filter(pk__in=[job.pk for job in jobs])
    last, done = (of_jobs.values_list(Subquery(each[:1])) for each in (own, finished))
    by_job: dict[int, list[Run]] = defaultdict(list)
    for run in Run.objects.filter(pk__in=last.union(done)).only(*_SHOWN):
        by_job[run.job_id].append(run)
    return by_job


def _ordinary(runs: QuerySet[Run]) -> QuerySet[Run]:
    return runs.filter(probe__isnull=True).select_related(None)


def _per_job(runs: QuerySet[Run], figure: Aggregate) -> Subquery:
    """Return one figure of a job's runs as a subquery: two joins would count each run many
    times.
    """
    own = runs_with_start(runs.filter(job=OuterRef("pk"))).values("job").annotate(figure=figure)
    return Subquery(own.values("figure"))


def _nulls_last(name: str, *, is_reversed: bool) -> OrderBy:
    column, is_descending = F(name.removeprefix("-")), name.startswith("-")
    if is_descending == is_reversed:
        return column.asc(nulls_last=True)
    return column.desc(nulls_last=True)

"""Recommendations of a run and of a job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Exists, Max, OuterRef, Q, QuerySet, Subquery

from webapp.advice.models import IS_OPEN, Recommendation
from webapp.analysis.models import Judgement
from webapp.runs.models import Job, Run


def recommendations_of(run: Run) -> QuerySet[Recommendation]:
    """Return the recommendations with this run as evidence, in any state, and those that it opened
    again; largest saving first.
    """
    rows = Recommendation.objects.filter(Q(run=run) | Q(reopened_by=run))
    return rows.select_related("run", "claimed_by", "proven_by", "reopened_by")


@dataclass(frozen=True)
class RunAdvice:
    """Recommendations about a run. `advised` have this run as evidence, in any state, or were
    opened again by it; the largest saving first. `not_followed` are those that earlier runs
    followed and that it went back from.
    """

    advised: list[Recommendation]
    not_followed: list[Recommendation]


def advice_about(run: Run) -> RunAdvice:
    """Return what the run's page says of recommendations, in one query."""
    left = Recommendation.not_followed_by.through.objects.filter(run=run)
    about = Recommendation.objects.filter(
        Q(run=run)
        | Q(reopened_by=run)
        | Q(pk__in=left.values("recommendation"), run__deleted_at=None)
    )
    marked = about.annotate(is_left=Exists(left.filter(recommendation=OuterRef("pk"))))
    rows = list(marked.select_related("run", "claimed_by", "proven_by", "reopened_by"))
    return RunAdvice(
        advised=by_saving(row for row in rows if run.pk in (row.run_id, row.reopened_by_id)),
        not_followed=[row for row in rows if row.is_left],
    )


def by_saving(rows: Iterable[Recommendation]) -> list[Recommendation]:
    """Sort those without a price by the time that they save, after the others in their order."""
    listed = list(rows)
    unpriced = [row for row in listed if row.saving_usd is None]
    if not unpriced:
        return listed
    answered = Judgement.objects.filter(
        run__in={row.run_id for row in unpriced},
        rule__in={rule for row in unpriced for rule in row.rules},
    )
    columns = answered.values_list("run_id", "rule", "waste_seconds_high")
    seconds = {(run, rule): saved for run, rule, saved in columns}

    def most_seconds(row: Recommendation) -> float:
        return max((seconds.get((row.run_id, rule), 0.0) for rule in row.rules), default=0.0)

    priced = [row for row in listed if row.saving_usd is not None]
    return [*priced, *sorted(unpriced, key=most_seconds, reverse=True)]


def open_recommendations(job: Job) -> QuerySet[Recommendation]:
    """Return the undecided recommendations, each with the run that is its evidence; largest saving
    first.
    """
    return _open().filter(job=job).select_related("run", "claimed_by", "proven_by", "reopened_by")


def decided_recommendations(job: Job) -> QuerySet[Recommendation]:
    """Return the recommendations that runs followed or a person decided on, the latest change
    first.
    """
    decided = (*Recommendation.FOLLOWED, Recommendation.DISMISSED, Recommendation.SNOOZED)
    present = Recommendation.objects.filter(job=job, state__in=decided, run__deleted_at=None)
    related = present.select_related("run", "claimed_by", "proven_by", "reopened_by")
    return related.order_by("-changed_at", "-pk")


def open_saving_usd() -> Subquery:
    """Return the possible monthly saving of each job of a query: its best open recommendation,
    since several may exclude one another; NULL without one.
    """
    own = _open().filter(job=OuterRef("pk"))
    return Subquery(_best(own).values("best"))


def open_savings_usd(jobs: Iterable[Job]) -> dict[int, Decimal]:
    """Return the same for these jobs, by their keys; without those that have none."""
    known = _open().filter(job__in=list(jobs), monthly_saving_usd__isnull=False)
    return dict(_best(known).values_list("job", "best"))


def _best(rows: QuerySet[Recommendation]) -> QuerySet[Any, Any]:
    own: QuerySet[Any, Any] = rows.order_by().values("job")
    best: QuerySet[Any, Any] = own.annotate(best=Max("monthly_saving_usd"))
    return best


def _open() -> QuerySet[Recommendation]:
    """Return the open recommendations. A deleted run is no evidence."""
    return Recommendation.objects.filter(IS_OPEN, run__deleted_at=None)

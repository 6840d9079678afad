"""A job's recommendations in every state, and what is decided about them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Field, Router, Schema

from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.advice import deciding
from webapp.advice.deciding import DecisionError
from webapp.advice.models import Recommendation
from webapp.advice.scope import recommendations_of, recommendations_of_job
from webapp.advice.selectors.savings import (
    UsdRange,
    calibration_of,
    runs_gone_back,
    saving_lines,
    saving_of,
    with_savings,
)
from webapp.advice.settling import counted_until
from webapp.api.amounts import money
from webapp.api.description import problem
from webapp.http.problems import Problem
from webapp.runs import scope
from webapp.runs.models import Run

router = Router(tags=["recommendations"])
_MISSING: dict[str, Any] = {"responses": {404: problem(404)}}
_REFUSED: dict[str, Any] = {"responses": {404: problem(404), 409: problem(409)}}


class RunRef(Schema):
    id: UUID
    number: int


class RangeOut(Schema):
    usd: str
    low_usd: str
    high_usd: str


class RunSavingOut(Schema):
    run: RunRef
    usd: str = Field(
        description="Signed: the adjusted reference minus the run's cost, or its part of that. "
        "What a run saved is the sum over all recommendations."
    )
    low_usd: str
    high_usd: str
    baseline_usd: str = Field(description="What the same work would have cost before.")
    is_own_way: bool = Field(
        description="The run was cheaper in a configuration that the recommendation doesn't name."
    )
    predicted_usd: str | None
    sum_usd: str = Field(description="Of the runs up to this one (CUSUM).")


class JobRecommendationOut(Schema):
    id: UUID
    kind: str
    title: str
    change: dict[str, Any] = Field(description="Setting -> its new value.")
    state: str = Field(description=", ".join(Recommendation.STATES))
    state_reason: str = Field(description="What is missing, or the reason that a person gave.")
    decided_by: str = Field(description="Empty: the runs tell the state.")
    snoozed_until: datetime | None
    is_provisional: bool
    rung: str = Field(description="The evidence of the estimate: measured, same, history or prior.")
    evidence: list[str]
    assumptions: list[str]
    how_to_apply: list[str] = Field(description="Steps to follow or lines to copy, in order.")
    risk: float = Field(description="0 to 4.")
    risk_reason: str
    effort: str
    conflicts_with: list[str] = Field(description="Kinds that can't be followed with this one.")
    estimated: RangeOut | None = Field(description="Saving per run; null: no price.")
    monthly_saving_usd: str | None
    realised: RangeOut | None = Field(
        description="Saving of the later runs in sum, signed, with a 90 % interval; null: none."
    )
    realised_runs: int
    calibration: float | None = Field(description="Realised over promised; null: not known.")
    savings: list[RunSavingOut]
    run: RunRef = Field(description="The run that is its evidence.")
    claimed_by: RunRef | None = Field(description="The first run that followed it.")
    claimed_candidate: dict[str, Any] | None = Field(
        description="The row of the candidate table that this run equals."
    )
    proven_by: RunRef | None
    counted_until: datetime | None = Field(
        description="Runs that begin later aren't counted: a year after `claimed_by` began."
    )
    not_followed_by: list[RunRef] = Field(
        description="The runs after `claimed_by` that went back, the newest first."
    )
    reopened_by: RunRef | None = Field(
        description="The newest run, if it went back and gives reason for it again: it is open."
    )
    seen_at: datetime | None
    created_at: datetime
    changed_at: datetime


class JobRecommendationsOut(Schema):
    recommendations: list[JobRecommendationOut]


class DismissalIn(Schema):
    reason: str = Field("", max_length=2000)


class SnoozeIn(Schema):
    days: int = Field(ge=1, le=365, description="It opens by itself after so many days.")


@router.get(
    "/jobs/{job_id}/recommendations",
    response=JobRecommendationsOut,
    auth=Bearer(Token.READ),
    summary="A job's recommendations in every state",
    openapi_extra=_MISSING,
)
def get_recommendations(request: TokenRequest, job_id: UUID) -> dict[str, Any]:
    """Answers a job's recommendations, the latest change first."""
    job = get_object_or_404(scope.jobs_of(request.auth.workspace), uuid=job_id)
    rows = with_savings(recommendations_of_job(job))
    return {"recommendations": [document(row) for row in rows]}


@router.post(
    "/jobs/{job_id}/recommendations/{recommendation_id}/dismiss",
    response=JobRecommendationOut,
    auth=Bearer(Token.WRITE),
    summary="Dismiss a recommendation",
    openapi_extra=_REFUSED,
)
def dismiss(
    request: TokenRequest, job_id: UUID, recommendation_id: UUID, said: DismissalIn
) -> dict[str, Any]:
    """Dismisses a recommendation. Later runs won't recommend it again."""
    row = _chosen(request, job_id, recommendation_id)
    return _decided(row, lambda: deciding.dismiss(row, request.auth, said.reason))


@router.post(
    "/jobs/{job_id}/recommendations/{recommendation_id}/snooze",
    response=JobRecommendationOut,
    auth=Bearer(Token.WRITE),
    summary="Snooze a recommendation",
    openapi_extra=_REFUSED,
)
def snooze(
    request: TokenRequest, job_id: UUID, recommendation_id: UUID, said: SnoozeIn
) -> dict[str, Any]:
    """Snoozes a recommendation. Answers 409 if it isn't open."""
    row = _chosen(request, job_id, recommendation_id)
    until = timezone.now() + timedelta(days=said.days)
    return _decided(row, lambda: deciding.snooze(row, request.auth, until))


@router.post(
    "/jobs/{job_id}/recommendations/{recommendation_id}/reopen",
    response=JobRecommendationOut,
    auth=Bearer(Token.WRITE),
    summary="Undo a decision on a recommendation",
    openapi_extra=_REFUSED,
)
def reopen(request: TokenRequest, job_id: UUID, recommendation_id: UUID) -> dict[str, Any]:
    """Undoes a decision: the runs tell the recommendation's state again. Without a decision,
    nothing changes. Answers 409 if a newer one of its kind is open.
    """
    row = _chosen(request, job_id, recommendation_id)
    return _decided(row, lambda: deciding.reopen(row, request.auth))


def document(row: Recommendation) -> dict[str, Any]:
    """Return the recommendation as `JobRecommendationOut` has it."""
    copied = ("kind", "title", "change", "state", "state_reason", "decided_by", "snoozed_until")
    said = ("is_provisional", "rung", "evidence", "assumptions", "how_to_apply", "risk")
    more = ("risk_reason", "effort", "conflicts_with", "claimed_candidate", "realised_runs")
    times = ("seen_at", "created_at", "changed_at")
    saving = saving_of(row)
    return {name: getattr(row, name) for name in (*copied, *said, *more, *times)} | {
        "id": row.uuid,
        "estimated": _range(saving.estimated),
        "monthly_saving_usd": money(saving.monthly_usd),
        "realised": _range(saving.realised),
        "calibration": calibration_of(row),
        "savings": [
            {
                "run": _run(line.row.run),
                "sum_usd": money(line.sum_usd),
                "is_own_way": line.row.is_own_way,
                **{
                    name: money(getattr(line.row, name))
                    for name in ("usd", "low_usd", "high_usd", "baseline_usd", "predicted_usd")
                },
            }
            for line in saving_lines(row)
        ],
        "run": _run(row.run),
        "claimed_by": _run(row.claimed_by),
        "proven_by": _run(row.proven_by),
        "counted_until": counted_until(row),
        "not_followed_by": [_run(run) for run in runs_gone_back(row)],
        "reopened_by": _run(row.reopened_by),
    }


def _chosen(request: TokenRequest, job_id: UUID, recommendation_id: UUID) -> Recommendation:
    rows = recommendations_of(request.auth.workspace)
    return get_object_or_404(rows, job__uuid=job_id, uuid=recommendation_id)


def _decided(row: Recommendation, decide: Callable[[], Recommendation]) -> dict[str, Any]:
    try:
        decide()
    except DecisionError as error:
        fix = "Read its state from GET /api/v1/jobs/{job_id}/recommendations."
        raise Problem(409, str(error), "recommendation_id", fix) from None
    return document(recommendations_of(row.job.workspace).get(pk=row.pk))


def _range(known: UsdRange | None) -> dict[str, Any] | None:
    if known is None:
        return None
    return {
        "usd": money(known.mid),
        "low_usd": money(known.low),
        "high_usd": money(known.high),
    }


def _run(run: Run | None) -> dict[str, Any] | None:
    return None if run is None else {"id": run.pk, "number": run.number}

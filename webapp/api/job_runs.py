"""A job's runs, newest first, with what each cost, what it got done, and its verdict."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.shortcuts import get_object_or_404
from django.urls import reverse
from ninja import Field, Query, Router, Schema

from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.analysis.selectors.completeness import Completeness, completeness_of
from webapp.analysis.selectors.verdict import verdict_of
from webapp.api import run_money
from webapp.api.amounts import money
from webapp.api.description import problem
from webapp.http.problems import Problem
from webapp.runs import scope
from webapp.runs.models import Job, Run, RunQuerySet

router = Router(tags=["read"])
MOST_RUNS = 500
STATES = [state for state, _ in Run.STATES]


class JobRunOut(Schema):
    id: UUID
    number: int
    state: str
    owner: str
    tags: dict[str, Any]
    started_at: datetime | None
    ended_at: datetime | None
    duration_seconds: float | None
    cost_usd: str | None = Field(description="Null: no price, or not computed yet.")
    cost_is_at_least: bool
    work: dict[str, float] = Field(description="Unit -> amount done.")
    is_excluded: bool
    is_pinned: bool
    is_probe: bool = Field(description="It measured some steps. Runs aren't compared with it.")
    is_complete: bool = Field(
        description="Every node has reported its end, and the analysis is final."
    )
    incomplete_because: list[str] = Field(description="What is missing; empty: nothing.")
    verdict: run_money.VerdictOut | None = Field(
        description="Null: not compared with earlier runs."
    )
    url: str


class JobRunsOut(Schema):
    runs: list[JobRunOut]
    next_cursor: UUID | None = Field(
        description="Send this value as `cursor` for the next page; null: this is the last page."
    )


@router.get(
    "/jobs/{job_id}/runs",
    response=JobRunsOut,
    auth=Bearer(Token.READ),
    summary="A job's runs with their verdicts",
    openapi_extra={"responses": {404: problem(404)}},
)
def get_job_runs(
    request: TokenRequest,
    job_id: UUID,
    state: str = Query("", pattern=f"^({'|'.join(STATES)})?$", description="Only runs in it."),  # type: ignore[type-arg]
    cursor: str = Query("", max_length=36, description="`next_cursor` of the previous page."),  # type: ignore[type-arg]
    limit: int = Query(100, ge=1, le=MOST_RUNS),  # type: ignore[type-arg]
) -> dict[str, Any]:
    """Answers a job's runs, newest first, by the time at which they began."""
    job = get_object_or_404(scope.jobs_of(request.auth.workspace), uuid=job_id)
    runs = _after(job, cursor).filter(**{"state": state} if state else {})
    rows = list(runs.newest_first().defer("metric_progress", "command", "git")[: limit + 1])
    shown = rows[:limit]
    known = completeness_of(shown)
    return {
        "runs": [_run(run, known[run.pk]) for run in shown],
        "next_cursor": shown[-1].pk if len(rows) > limit else None,
    }


def _after(job: Job, cursor: str) -> RunQuerySet:
    """Return the runs of the pages after the one that ended with the run `cursor`, deleted or
    not.
    """
    if not cursor:
        return job.present_runs
    try:
        seen = scope.every_run_of(job.workspace).get(job=job, pk=UUID(cursor))
        return job.present_runs.began_before(seen)
    except (ValueError, Run.DoesNotExist):
        detail, fix = "The cursor isn't one of this job.", "Send next_cursor as it was answered."
        raise Problem(422, detail, "cursor", fix) from None


def _run(run: Run, completeness: Completeness) -> dict[str, Any]:
    copied = ("number", "state", "owner", "tags", "started_at", "ended_at", "work")
    return {
        name: getattr(run, name) for name in (*copied, "is_excluded", "is_pinned", "is_probe")
    } | {
        "id": run.pk,
        "duration_seconds": run.duration.total_seconds() if run.duration else None,
        "cost_usd": money(run.cost_usd),
        "cost_is_at_least": run.cost_is_at_least,
        "is_complete": completeness.is_complete,
        "incomplete_because": completeness.because,
        "verdict": run_money.verdict_document(verdict_of(run)),
        "url": settings.BASE_URL + reverse("dashboard:run", args=[run.pk]),
    }

"""The costs of failures, by cause and job."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema

from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.analysis.selectors.failures import FailureLine, FailureSum, failures_between
from webapp.api.amounts import money
from webapp.api.asked_month import month_of
from webapp.api.description import problem
from webapp.runs import scope

AMOUNTS = ("lost_usd", "start_usd", "not_continued_usd", "usd")
router = Router(tags=["read"], auth=Bearer(Token.READ))


class FailureOut(Schema):
    at: datetime
    cause: str = Field(
        description="`spot`, `oom`, `nan`, `hardware`, `timeout`, `signal`, `exit_code`, `silent` "
        "or `unknown`."
    )
    title: str = Field(description="The cause in words.")
    run: UUID
    job: str
    run_number: int
    lost_seconds: float = Field(description="GPU-seconds; node-seconds without GPUs.")
    lost_is_known: bool = Field(description="false: some steps have no known number.")
    start_seconds: float = Field(
        description="Restart, loading, start-up and first steps that followed."
    )
    is_continued: bool = Field(description="Something was started after it.")
    lost_usd: str | None = Field(description="null: no price.")
    start_usd: str | None = Field(description="null: no price.")
    not_continued_usd: str | None = Field(
        description="The rest of the run's cost, if nothing continues the run; null: no price."
    )
    usd: str | None = Field(description="All three together; null: no price.")


class FailureSumOut(Schema):
    label: str
    failures: int
    unpriced_failures: int = Field(description="Without a price, not included in the sums.")
    unknown_failures: int = Field(description="Of which the lost work isn't known.")
    lost_usd: str | None
    start_usd: str | None
    not_continued_usd: str | None
    usd: str | None = Field(description="null: none has a price.")


class FailuresOut(Schema):
    month: str
    start: datetime
    end: datetime
    total: FailureSumOut
    by_cause: list[FailureSumOut]
    by_job: list[FailureSumOut]
    failures: list[FailureOut] = Field(description="The newest first.")


@router.get(
    "/failures",
    response=FailuresOut,
    summary="What the failures of a month cost",
    openapi_extra={"responses": {404: problem(404)}},
)
def get_failures(
    request: TokenRequest,
    month: str = Query("", description="For example 2026-11; default: the current month."),  # type: ignore[type-arg]
    job: UUID | None = None,
) -> dict[str, Any]:
    """Answers the failures of a month. A failure counts in the month in which it happened, with the
    start that followed it. `job` is a job's id; by default, all jobs count.
    """
    workspace = request.auth.workspace
    chosen = month_of(month, workspace)
    only = get_object_or_404(scope.jobs_of(workspace), uuid=job) if job else None
    table = failures_between(workspace, chosen.start, chosen.end, only)
    return {
        "month": str(chosen),
        "start": chosen.start,
        "end": chosen.end,
        "total": _sum(table.total),
        "by_cause": [_sum(line) for line in table.by_cause],
        "by_job": [_sum(line) for line in table.by_job],
        "failures": [failure_out(failure) for failure in table.failures],
    }


def failure_out(failure: FailureLine) -> dict[str, Any]:
    return {
        "at": failure.at,
        "cause": failure.cause,
        "title": failure.words,
        "run": failure.run.pk,
        "job": str(failure.run.job),
        "run_number": failure.run.number,
        "lost_seconds": failure.lost_seconds,
        "lost_is_known": failure.is_lost_known,
        "start_seconds": failure.start_seconds,
        "is_continued": failure.next is not None,
        **{name: money(getattr(failure, name)) for name in AMOUNTS},
    }


def _sum(line: FailureSum) -> dict[str, Any]:
    counts = {
        "label": line.label,
        "failures": line.count,
        "unpriced_failures": line.unpriced_count,
        "unknown_failures": line.unknown_count,
    }
    return counts | {name: money(getattr(line, name)) for name in AMOUNTS}

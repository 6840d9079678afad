"""The read API: runs and jobs as the pages show them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse
from ninja import Query, Router

from advisor.sizing.doubt import doubts
from rules.registry import title_of
from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.advice.models import Recommendation
from webapp.advice.selectors.checked import checked_of
from webapp.advice.selectors.recommendations import recommendations_of
from webapp.advice.selectors.savings import saving_of
from webapp.analysis.models import Judgement
from webapp.analysis.selectors.findings import analysis_of, findings_of
from webapp.analysis.selectors.ledger import run_ledger
from webapp.api import ledger, readable, run_money
from webapp.api.amounts import money
from webapp.api.schemas import JobsOut, RunOut
from webapp.runs import resource, scope
from webapp.runs.editing import machines
from webapp.runs.failure import failure_of, stderr_of
from webapp.runs.history import facts
from webapp.runs.models import Job, Run
from webapp.runs.stages import stages_of
from webapp.runs.views import series

router = Router(tags=["read"], auth=Bearer(Token.READ))
_CURSOR = "`next_cursor` of the previous page."


@resource.router.get(
    resource.ADDRESS,
    response=RunOut,
    tags=["read"],
    auth=Bearer(Token.READ, Token.INGEST),
    summary="One run: state, cost, findings, recommendations",
)
def get_run(request: TokenRequest, run_id: UUID) -> dict[str, Any]:
    """Answers 404 for a run of another workspace. A token with the scope `ingest` but not `read`
    reads only the runs that it uploaded to."""
    return run_document(readable.run(request.auth, str(run_id)))


@router.get("/jobs", response=JobsOut, summary="The workspace's jobs")
def get_jobs(
    request: TokenRequest,
    cursor: str = Query("", pattern="^[0-9]{0,18}$", description=_CURSOR),  # type: ignore[type-arg]
    limit: int = Query(100, ge=1, le=1000),  # type: ignore[type-arg]
) -> dict[str, Any]:
    """Answers the jobs, ordered by first appearance."""
    jobs = scope.in_order_of_appearance(scope.jobs_of(request.auth.workspace))
    rows = list(jobs.filter(pk__gt=int(cursor or 0))[: limit + 1])
    shown = rows[:limit]
    return {
        "jobs": [_job(job) for job in shown],
        "next_cursor": str(shown[-1].pk) if len(rows) > limit else None,
    }


@router.get(
    "/runs/{run_id}/series",
    summary="Samples of a run: minimum, mean and maximum per time bucket",
    openapi_extra={"responses": {304: {"description": "Not modified since the ETag sent"}}},
)
def get_series(
    request: TokenRequest,
    run_id: UUID,
    names: str,
    start: float | None = Query(None, alias="from", description="Seconds since the run's start."),  # type: ignore[type-arg]
    end: float | None = Query(None, alias="to"),  # type: ignore[type-arg]
    buckets: int = series.DEFAULT_BUCKETS,
) -> HttpResponse:
    """Answers samples of a run in time buckets; `names` are comma-separated. The answer has an
    ETag; null values are unknown.
    """
    run = scope.run_or_404(request.auth.workspace, run_id)
    return series.answer(request, run, series.json_answer)


def run_document(run: Run) -> dict[str, Any]:
    """Return the run as `RunOut` has it."""
    analysis = analysis_of(run)
    return {
        **_run(run),
        "money": run_money.document(run),
        "ledger": ledger.document(run),
        "analysis_is_final": analysis is not None and analysis.is_final,
        "analysis_error": analysis.error if analysis else "",
        "checked": _checked(run),
        "findings": [_finding(judgement) for judgement in findings_of(run)],
        "recommendations": [_recommendation(r) for r in recommendations_of(run)],
    }


def _run(run: Run) -> dict[str, Any]:
    copied = ("id", "number", "state", "owner", "tags", "started_at", "ended_at", "work", "metrics")
    sessions = scope.sessions_of(run)
    said = ("metric_progress", "stopped_by", "note", "is_excluded", "is_pinned", "is_probe")
    nodes = machines.nodes_of(run)
    return {name: getattr(run, name) for name in (*copied, *said)} | {
        "job": {"id": run.job.uuid, "name": run.job.name},
        "duration_seconds": run.duration.total_seconds() if run.duration else None,
        "cost_usd": money(run.cost_usd),
        "billed_usd": money(run.billed_usd),
        "cost_is_at_least": run.cost_is_at_least,
        "failure": failure_of(run, sessions),
        "stderr": stderr_of(sessions),
        "stages": stages_of(run, sessions),
        "nodes": nodes,
        "machine_doubts": doubts([facts(node) for node in nodes]),
        "missing_prices": run.summary.missing,
        "summary": run.summary,
        "url": settings.BASE_URL + reverse("dashboard:run", args=[run.pk]),
    }


def _checked(run: Run) -> dict[str, Any]:
    nodes, judged = machines.nodes_of(run), run.judgements.all()
    found = checked_of(run, nodes, judged, recommendations_of(run), run_ledger(run))
    return {
        "conclusion": found.conclusion if found.lines else "",
        "inputs": [
            {"name": e.name, "is_known": e.is_known, "found": e.found, "step": e.step}
            for e in found.inputs
        ],
    }


def _finding(judgement: Judgement) -> dict[str, Any]:
    copied = ("rule", "severity", "summary", "advice", "is_provisional", "explained_by")
    return {name: getattr(judgement, name) for name in copied} | {
        "title": title_of(judgement.rule),
        "waste_usd_low": money(judgement.waste_usd_low),
        "waste_usd_high": money(judgement.waste_usd_high),
        "taken": [
            {"rule": rule, "seconds": seconds, "usd": usd} for rule, seconds, usd in judgement.taken
        ],
    }


def _recommendation(recommendation: Recommendation) -> dict[str, Any]:
    copied = ("title", "state", "rung", "risk", "effort", "is_provisional")
    saving = saving_of(recommendation)
    estimated = saving.estimated
    return {
        "id": recommendation.uuid,
        **{name: getattr(recommendation, name) for name in copied},
        "saving_usd": money(estimated.mid if estimated else None),
        "saving_low_usd": money(estimated.low if estimated else None),
        "saving_high_usd": money(estimated.high if estimated else None),
        "monthly_saving_usd": money(saving.monthly_usd),
        "realised_usd": money(saving.realised.mid if saving.realised else None),
    }


def job_document(job: Job) -> dict[str, Any]:
    """Return the job as `JobOut` has it."""
    return _job(scope.in_order_of_appearance(scope.jobs_of(job.workspace)).get(pk=job.pk))


def _job(job: Job) -> dict[str, Any]:
    copied = ("name", "owner", "tags", "metrics", "run_count", "last_run", "created_at")
    return {name: getattr(job, name) for name in copied} | {
        "id": job.uuid,
        "url": settings.BASE_URL + reverse("dashboard:job", args=[job.uuid]),
    }

"""A workspace's jobs, runs and spend for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Count, Max, Q, Sum
from django.http import HttpResponse
from django.utils import timezone
from ninja import Router

from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token, Workspace
from webapp.http import prometheus
from webapp.http.prometheus import Sample
from webapp.runs import scope
from webapp.runs.models import began

router = Router(tags=["read"])
MOST_JOBS = 1_000
_RUNS, _SPEND = "trimtab_job_runs", "trimtab_job_spend_30_days_usd"
_UNPRICED, _BEGAN = "trimtab_job_runs_without_price_30_days", "trimtab_job_last_run_began_seconds"
_HELP = {
    _RUNS: "Runs of the job by state; states without runs are left out.",
    _SPEND: "Cost of the runs that began in the last 30 days, as far as they have a price.",
    _UNPRICED: "Runs that began in the last 30 days and have no price, or none yet.",
    _BEGAN: "When the last run began, as Unix time.",
}


@router.get(
    "/metrics",
    auth=Bearer(Token.READ),
    summary="Jobs, runs and spend for Prometheus",
    openapi_extra={
        "responses": {
            200: {
                "description": "Gauges",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            }
        }
    },
)
def get_metrics(request: TokenRequest) -> HttpResponse:
    """Answers in Prometheus's text format: the 1,000 jobs that ran last."""
    text = prometheus.text(_HELP, _samples(request.auth.workspace))
    return HttpResponse(text, content_type=prometheus.CONTENT_TYPE)


def _samples(workspace: Workspace) -> Iterator[Sample]:
    runs = scope.runs_of(workspace).filter(job__in=scope.jobs_of(workspace))
    last = runs.order_by().values_list("job").annotate(last=Max(began())).order_by("-last", "job")
    names = dict(scope.jobs_of(workspace).values_list("pk", "name"))
    newest = dict(last[:MOST_JOBS])
    for job, moment in newest.items():
        yield _BEGAN, {"job": names[job]}, moment.timestamp()
    own = runs.filter(job__in=list(newest)).select_related(None).order_by()
    for job, state, count in own.values_list("job", "state").annotate(Count("pk")):
        yield _RUNS, {"job": names[job], "state": state}, count
    since = timezone.now() - timedelta(days=30)
    recent = own.alias(began=began()).filter(began__gte=since).values_list("job")
    sums = recent.annotate(usd=Sum("cost_usd"), unpriced=Count("pk", filter=Q(cost_usd=None)))
    for job, usd, unpriced in sums:
        yield _SPEND, {"job": names[job]}, float(usd or 0)
        yield _UNPRICED, {"job": names[job]}, unpriced

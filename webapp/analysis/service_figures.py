"""Figures of `/metrics` about jobs, runs and spend of the whole service, not of single
workspaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Count, Q, Sum
from django.utils import timezone

from webapp.accounts.models import Workspace
from webapp.http.prometheus import Sample
from webapp.runs.models import Job, Run, began

_WORKSPACES, _JOBS, _RUNS = "trimtab_workspaces", "trimtab_jobs", "trimtab_runs"
_SPEND, _UNPRICED = "trimtab_spend_30_days_usd", "trimtab_runs_without_price_30_days"
HELP = {
    _WORKSPACES: "Workspaces, without deleted ones.",
    _JOBS: "Jobs, without deleted and merged ones.",
    _RUNS: "Runs by state, without deleted ones.",
    _SPEND: "Cost of the runs that began in the last 30 days, as far as they have a price.",
    _UNPRICED: "Runs that began in the last 30 days and have no price, or none yet.",
}


def figures() -> Iterator[Sample]:
    """Yield the figures without sample data and deleted workspaces."""
    workspaces = Workspace.objects.filter(deleted_at=None, is_sample_data=False)
    yield _WORKSPACES, {}, workspaces.count()
    jobs = Job.objects.filter(workspace__in=workspaces, deleted_at=None, merged_into=None)
    yield _JOBS, {}, jobs.count()
    runs = Run.objects.filter(workspace__in=workspaces, job__deleted_at=None).present()
    counted = dict(runs.order_by().values_list("state").annotate(Count("pk")))
    for state, _ in Run.STATES:
        yield _RUNS, {"state": state}, counted.get(state, 0)
    since = timezone.now() - timedelta(days=30)
    recent = runs.alias(began=began()).filter(began__gte=since)
    sums = recent.aggregate(usd=Sum("cost_usd"), unpriced=Count("pk", filter=Q(cost_usd=None)))
    yield _SPEND, {}, float(sums["usd"] or 0)
    yield _UNPRICED, {}, sums["unpriced"]

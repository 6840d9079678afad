"""Runs of one job that take more or less time for the same work, judged one after the other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from tests.web import factories
from webapp.analysis.successive import verdicts
from webapp.runs.models import Job, Run

CALM = (1.0, 1.01, 0.99, 1.005)
"""Times the usual time."""


def finished(job: Job, slow: float, **more: Any) -> Run:
    """Return a run of the job that took so many times the usual time for its 19,200 samples, judged
    as its analysis does.
    """
    usual = timezone.now() - timedelta(hours=100 - job.runs_made)
    started_at = more.pop("started_at", usual)
    cost, changes = more.pop("cost", f"{slow:.9f}"), more.pop("summary", {})
    loop = 550 * slow
    run = factories.run(job, cost=cost, seconds=loop + 50, started_at=started_at, **more)
    phases = {"initialise": 30.0, "train": loop, "finalise": 20.0}
    run.summary = factories.summary(**{"phase_seconds": phases, **changes})
    run.save()
    verdicts.judge_run(run)
    return Run.objects.get(pk=run.pk)

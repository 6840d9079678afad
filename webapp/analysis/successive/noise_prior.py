"""Assumes a job's run-to-run variation until its own runs show it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from advisor.successive.noise import Prior
from webapp.runs.models import Job, Run

LEAST_JOBS = 3
LEAST_FREEDOM = 8
"""The degrees of freedom that a job's own variation needs before it counts."""
LOOKED_AT = 200


def prior_of(runs: Sequence[Run]) -> Prior:
    """Return the prior by which these runs of one job were judged before, so that other jobs don't
    change its verdicts later.
    """
    verdicts = (run.summary.verdict for run in reversed(runs))
    known = next((each for each in verdicts if each and each.prior_spread), None)
    if known is not None and known.prior_spread is not None:
        return Prior(spread=known.prior_spread, jobs=known.prior_jobs)
    return _of_others(runs[-1].job)


def _of_others(job: Job) -> Prior:
    """Return the median of the workspace's other jobs, or the usual prior if there are fewer than
    three.
    """
    others = Run.objects.present().filter(workspace=job.workspace_id, state=Run.FINISHED)
    newest = others.exclude(job=job).order_by("-created_at").only("job_id", "summary")[:LOOKED_AT]
    spreads: dict[int, float] = {}
    for run in newest:
        verdict = run.summary.verdict
        if verdict and verdict.noise and verdict.noise_freedom >= LEAST_FREEDOM:
            spreads.setdefault(run.job_id, verdict.noise)
    if len(spreads) < LEAST_JOBS:
        return Prior()
    return Prior(spread=median(spreads.values()), jobs=len(spreads))

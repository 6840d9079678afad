"""The judgement of metrics of a job's runs, as people set it, and by the noise of similar runs."""

from __future__ import annotations

from typing import Any

from advisor.comparison.job_metrics import JobMetrics, from_document
from advisor.comparison.quality import noise_of
from webapp.runs.models import Run

LOOKED_AT = 50
"""The newest runs before the later one that are searched for alike ones."""
SEEDS = frozenset({"seed", "random_seed", "random_state"})


def job_metrics(a: Run, b: Run) -> JobMetrics:
    """Return the settings for comparing `b` with `a`. The noise is that of earlier runs like `a`,
    without both.
    """
    finished = a.job.compared_runs.filter(state=Run.FINISHED, is_excluded=False)
    earlier = finished.exclude(pk__in=[a.pk, b.pk]).began_before(b).newest_first()
    rows = earlier.only("metrics", "parameters", "summary")[:LOOKED_AT]
    alike = [run.metrics for run in rows if _likeness(run) == _likeness(a)]
    return JobMetrics(from_document(b.job.metrics), noise_of(alike))


def _likeness(run: Run) -> tuple[str, str, dict[str, Any]]:
    """Return a value that is equal for runs that repeat each other with another seed."""
    parameters = {name: value for name, value in run.parameters.items() if name not in SEEDS}
    return run.summary.workload_key, run.summary.configuration_key, parameters

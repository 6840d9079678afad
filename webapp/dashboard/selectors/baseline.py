"""Chooses the run that a run is compared with."""

from __future__ import annotations

from webapp.runs.models import Run


def baseline_of(run: Run) -> Run | None:
    """Return the newest of the job's other pinned runs, or else the last finished run before it.
    Probes and excluded runs are never used.
    """
    done = run.job.compared_runs.filter(state=Run.FINISHED, is_excluded=False).newest_first()
    pinned = done.filter(is_pinned=True).exclude(pk=run.pk)
    return pinned.first() or done.began_before(run).first()

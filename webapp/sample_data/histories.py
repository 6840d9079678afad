"""All simulated runs of the "sample data" workspace."""

from __future__ import annotations

from datetime import datetime

from webapp.sample_data.jobs import JOBS, LIVE_JOB
from webapp.sample_data.published import published_runs
from webapp.sample_data.simulation import SimulatedRun

WORKSPACE = "sample-data"


def sample_runs(now: datetime, workspace: str = WORKSPACE) -> list[SimulatedRun]:
    """Return the runs, oldest first. The same day and workspace always give the same runs, byte for
    byte.

    Args:
        now: timezone-aware; all runs have ended before its day.
        workspace: part of every run's id, so that two workspaces can hold the same history.
    """
    runs = [run for job in (*JOBS, LIVE_JOB) for run in job.runs(now, workspace)]
    return [*published_runs(workspace), *sorted(runs, key=lambda run: run.started_at)]


def runs_of(job: str, now: datetime, workspace: str = WORKSPACE) -> list[SimulatedRun]:
    """Return the runs of one job, oldest first."""
    [found] = [each for each in (*JOBS, LIVE_JOB) if each.name == job]
    return found.runs(now, workspace)

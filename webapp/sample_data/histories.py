"""All simulated runs of the "sample data" workspace."""

from __future__ import annotations

from datetime import datetime

from webapp.sample_data.nightly import nightly_runs
from webapp.sample_data.published import published_runs
from webapp.sample_data.simulation import SimulatedRun

WORKSPACE = "sample-data"


def sample_runs(now: datetime, workspace: str = WORKSPACE) -> list[SimulatedRun]:
    """Oldest first. The same day and workspace always give the same runs, byte for byte.

    Args:
        now: timezone-aware; the nightly runs end in the night before it.
        workspace: part of every run's id, so that two workspaces can hold the same history.
    """
    return [*published_runs(workspace), *nightly_runs(now, workspace)]

"""Keeps the runs of one workspace from the uploads of others."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from webapp.accounts.models import Workspace
from webapp.http.problems import Problem
from webapp.runs import registration
from webapp.runs.models import Run


def find_owners(run_ids: Collection[UUID]) -> dict[UUID, int]:
    """Return the workspace of each of these runs that exists."""
    if not run_ids:
        return {}
    return dict(Run.objects.filter(pk__in=run_ids).values_list("pk", "workspace_id"))


def is_new_run(workspace: Workspace, run_id: UUID) -> bool:
    """Return whether the run is new, before anything is written: an object must never be stored
    under another workspace's run.

    Raises:
        Problem: 404 if the run is another workspace's.
    """
    owner = find_owners([run_id]).get(run_id)
    if owner not in (None, workspace.pk):
        raise foreign_run()
    return owner is None


def lock_own_run(workspace: Workspace, run_id: UUID, job_name: str, is_new: bool = False) -> Run:
    """Return the run, locked; made if it is new, as `is_new_run` may have found.

    Raises:
        Problem: 404 if it is another workspace's.
    """
    run = registration.lock_run(workspace, run_id, job_name, is_new)
    if run.workspace_id != workspace.pk:
        raise foreign_run()
    return run


def foreign_run() -> Problem:
    """Return the problem of an upload to a run of another workspace."""
    detail, fix = "This run is not in your workspace.", "Create a new run id."
    return Problem(404, detail, "run_id", fix, kind="run-in-another-workspace")

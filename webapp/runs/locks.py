"""Who waits for whom: a job is locked before its runs, a run before its analysis.

Everybody who needs more than one of them goes in this order, so nobody waits in a circle. An upload
needs its run and the run's analysis only. `no_key`: PostgreSQL looks for what a foreign key names
when a transaction ends, out of any order, and waits for whoever might change the key.
"""

from __future__ import annotations

from uuid import UUID

from webapp.accounts.models import Workspace
from webapp.runs.models import Job, Run


def job(row_id: int) -> Job:
    """The job as it is now, until the transaction ends."""
    rows = Job.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("workspace", "merged_into").get(pk=row_id)


def run(run_id: UUID) -> Run:
    """The run as it is now, and its job, until the transaction ends."""
    job(Run.objects.values_list("job_id", flat=True).get(pk=run_id))
    rows = Run.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("job", "workspace").get(pk=run_id)


def merges(workspace_id: int) -> None:
    """Nobody else merges jobs of the workspace until the transaction ends."""
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)

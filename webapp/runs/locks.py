"""The order of locks: a job is locked before its runs, a run before its analysis.

Every transaction that needs several of these locks takes them in this order, which prevents
deadlocks. An upload needs its run and the run's analysis only. `no_key`: PostgreSQL checks foreign
keys at commit, in any order, and would wait for other locks.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from webapp.accounts.models import Workspace
from webapp.database.prepared import Models, Slot
from webapp.runs.models import Job, Run


def job(row_id: int) -> Job:
    """Lock the job until the transaction ends, and return it."""
    rows = Job.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("workspace", "merged_into").get(pk=row_id)


def run(run_id: UUID) -> Run:
    """Lock the run's job and the run until the transaction ends, and return the run."""
    _locked_job(run=run_id)
    rows = _locked_run(run=run_id)
    if not rows:
        raise Run.DoesNotExist(f"There is no run {run_id}.")
    return rows[0]


def merges(workspace_id: int) -> None:
    """Prevent other merges in the workspace until the transaction ends."""
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)


@Models
def _locked_job() -> QuerySet[Job]:
    """Return the query that locks a run's job."""
    own = Run.objects.filter(pk=Slot("run", Run._meta.pk)).values("job")
    return Job.objects.select_for_update(no_key=True).filter(pk__in=own).only("pk")


@Models
def _locked_run() -> QuerySet[Run]:
    rows = Run.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("job", "workspace").filter(pk=Slot("run", Run._meta.pk))

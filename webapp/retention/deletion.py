"""Deletes what a plan names: first the row, then its objects.

If the process is killed in between, an object without a row remains, and the orphan sweep finds it.
A row without its object would look like damage.
While a backup runs, `BackupRunningError` is raised instead of deleting rows and objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from advisor.store.objects import ObjectStore
from advisor.store.opening import open_store
from webapp.accounts.models import Workspace
from webapp.database import object_hold
from webapp.retention import due, orphans
from webapp.retention.models import RetentionReport
from webapp.retention.plan import PlannedDeletion, plan, whole_workspace
from webapp.runs.models import Artefact, Chunk, Job, Run, Segment

BATCH = 200
SAMPLES = ("raw", "tiers", "artefact")


def plan_deletions(now: datetime) -> list[PlannedDeletion]:
    """Return what a full round would delete, in the order of deletion."""
    store = _store()
    kept, deleted = _workspaces(now)
    due_items = [item for workspace in kept for item in plan(workspace, store, now)]
    due_items += [item for workspace in deleted for item in whole_workspace(workspace, store)]
    return [*due_items, *orphans.orphans(store, now)]


def delete_all_expired(now: datetime) -> list[PlannedDeletion]:
    """Run a full round. Returns what was deleted, as listed in its plan."""
    kept, deleted = _workspaces(now)
    gone = [item for workspace in kept for item in round_of(workspace, now)]
    gone += [item for workspace in deleted for item in delete_workspace(workspace, now)]
    return gone + delete_orphans(now)


def delete_expired_of(workspace: Workspace, now: datetime) -> list[PlannedDeletion]:
    """Run one round in one workspace. Delete all of it if its deletion can no longer be undone."""
    if due.deleted_workspaces(now).filter(pk=workspace.pk).exists():
        return delete_workspace(workspace, now)
    return round_of(workspace, now)


def _workspaces(now: datetime) -> tuple[list[Workspace], list[Workspace]]:
    """Return the workspaces to keep, and those to delete completely."""
    deleted = due.deleted_workspaces(now).order_by("pk")
    return list(Workspace.objects.exclude(pk__in=deleted).order_by("pk")), list(deleted)


def round_of(workspace: Workspace, now: datetime) -> list[PlannedDeletion]:
    """Run one round in one workspace."""
    return delete_planned(workspace, plan(workspace, _store(), now), now)


def delete_planned(
    workspace: Workspace, doomed: Sequence[PlannedDeletion], now: datetime
) -> list[PlannedDeletion]:
    """Delete what the workspace's plan lists, if it is still expired. Returns what was deleted."""
    gone: list[PlannedDeletion] = []
    samples = [item for item in doomed if item.kind in SAMPLES]
    for run_id, items in groupby(samples, key=lambda item: item.run_id):
        gone += _delete_samples(run_id, list(items))
    gone += [item for item in doomed if item.kind == "run" and _delete_run(item, workspace, now)]
    gone += [item for item in doomed if item.kind == "job" and _delete_job(item, workspace, now)]
    _report(workspace, gone)
    return gone


def delete_workspace(workspace: Workspace, now: datetime) -> list[PlannedDeletion]:
    """Delete everything of a workspace whose deletion can no longer be undone."""
    doomed = whole_workspace(workspace, _store())
    for item in doomed:
        if not due.deleted_workspaces(now).filter(pk=workspace.pk).exists():
            return []
        for run in Run.objects.filter(workspace=workspace, pk__in=_one(item.run_id)):
            _delete_rows_and_objects(run)
    Job.objects.filter(workspace=workspace).delete()
    workspace.delete()
    return doomed


def delete_orphans(now: datetime) -> list[PlannedDeletion]:
    """Delete the orphans of the whole store, and the remains of interrupted writes."""
    store = _store()
    gone = []
    for orphan in orphans.orphans(store, now):
        store.delete(orphan.name)
        gone.append(orphan)
    store.tidy(before=now - orphans.YOUNG)
    return gone


def _delete_samples(run_id: UUID | None, items: list[PlannedDeletion]) -> list[PlannedDeletion]:
    """Delete objects of one run. A plan lists them together: their keys begin with the run's id."""
    store = _store()
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        _forget(run_id, batch)
        for item in batch:
            store.delete(item.name)
    return items


@object_hold.deletion()
def _forget(run_id: UUID | None, batch: list[PlannedDeletion]) -> None:
    """Delete the rows of a batch of objects, and note on the run that they were deleted."""
    now = timezone.now()
    keys = [item.name for item in batch]
    kinds = {item.kind for item in batch}
    run = Run.objects.filter(pk=run_id) if run_id else Run.objects.none()
    if kinds & {"raw", "tiers"}:
        run.filter(raw_deleted_at=None).update(raw_deleted_at=now)
    if "tiers" in kinds:
        run.filter(samples_deleted_at=None).update(samples_deleted_at=now)
    Chunk.objects.filter(object_key__in=keys).delete()
    Artefact.objects.filter(run=run_id, object_key__in=keys).delete()
    segments = Segment.objects.filter(session__node__attempt__run=run_id, object_key__in=keys)
    segments.update(object_key="", compacted_at=now)


def _delete_run(item: PlannedDeletion, workspace: Workspace, now: datetime) -> bool:
    """Delete a run. Returns False if it is no longer due: a person restored it or changed the
    setting.
    """
    old, deleted = due.old_runs(workspace, now), due.deleted_runs(workspace, now)
    ids = _one(item.run_id)
    run = old.filter(pk__in=ids).first() or deleted.filter(pk__in=ids).first()
    if run is None:
        return False
    _delete_rows_and_objects(run)
    return True


def _one(run_id: UUID | None) -> list[UUID]:
    return [] if run_id is None else [run_id]


def _delete_rows_and_objects(run: Run) -> None:
    with object_hold.deletion():
        keys = _keys(run)
        run.delete()
    store = _store()
    for key in keys:
        store.delete(key)


def _keys(run: Run) -> list[str]:
    """Return the objects that this run's rows refer to. Any other object is an orphan or being
    uploaded.
    """
    every = (
        Segment.objects.filter(session__node__attempt__run=run),
        Chunk.objects.filter(node__attempt__run=run),
        Artefact.objects.filter(run=run),
    )
    return [key for rows in every for key in rows.values_list("object_key", flat=True) if key]


def _delete_job(item: PlannedDeletion, workspace: Workspace, now: datetime) -> bool:
    """Delete a job. Returns False if it was restored, or one of its runs is kept."""
    empty = due.deleted_jobs(workspace, now).filter(pk__in=[item.row], runs=None)
    return empty.delete()[0] > 0


def _report(workspace: Workspace, gone: Iterable[PlannedDeletion]) -> None:
    gone = list(gone)
    if not gone:
        return
    counts = Counter(item.kind for item in gone)
    size_bytes = sum(item.size_bytes for item in gone)
    RetentionReport.objects.create(workspace=workspace, counts=dict(counts), size_bytes=size_bytes)


def _store() -> ObjectStore:
    return open_store(settings.OBJECTS_URL)

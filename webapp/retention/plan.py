"""Lists what the next round would delete. Deletes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from advisor.store.objects import ObjectStore
from webapp.accounts.models import Workspace
from webapp.retention import due
from webapp.runs.models import Job, Run

Kind = Literal["raw", "tiers", "artefact", "run", "job", "workspace", "orphan"]


@dataclass(frozen=True)
class PlannedDeletion:
    """One item to delete: a stored object, or a row with everything that belongs to it.

    Attributes:
        name: the object's key, or the row's display name.
        run_id: the run, or whose samples they are.
        row: primary key of a job or workspace.
    """

    kind: Kind
    name: str
    size_bytes: int = 0
    run_id: UUID | None = None
    row: int | None = None

    def document(self) -> dict[str, object]:
        return {"kind": self.kind, "name": self.name, "size_bytes": self.size_bytes}


def plan(workspace: Workspace, store: ObjectStore, now: datetime) -> list[PlannedDeletion]:
    """Return everything of one workspace that has expired at `now`, each item once."""
    runs = list(_runs(workspace, store, now))
    whole = {doomed.run_id for doomed in runs}
    samples = [item for item in _samples(workspace, store, now) if item.run_id not in whole]
    jobs = [
        PlannedDeletion("job", job.name, row=job.pk) for job in due.deleted_jobs(workspace, now)
    ]
    return [*samples, *runs, *jobs]


def whole_workspace(workspace: Workspace, store: ObjectStore) -> list[PlannedDeletion]:
    """Return everything of a workspace, then the workspace itself."""
    runs = [
        _run(run, store) for run in Run.objects.filter(workspace=workspace).select_related("job")
    ]
    jobs = [
        PlannedDeletion("job", job.name, row=job.pk)
        for job in Job.objects.filter(workspace=workspace)
    ]
    return [*runs, *jobs, PlannedDeletion("workspace", workspace.name, row=workspace.pk)]


def _runs(workspace: Workspace, store: ObjectStore, now: datetime) -> Iterator[PlannedDeletion]:
    old, deleted = due.old_runs(workspace, now), due.deleted_runs(workspace, now)
    ids = [*old.values_list("pk", flat=True), *deleted.values_list("pk", flat=True)]
    runs = Run.objects.filter(pk__in=ids).select_related("job")
    for run in runs.order_by("job", "number"):
        yield _run(run, store)


def _run(run: Run, store: ObjectStore) -> PlannedDeletion:
    size_bytes = sum(stored.size_bytes for stored in store.list(prefix(run.pk)))
    return PlannedDeletion("run", str(run), size_bytes, run_id=run.pk)


def prefix(run_id: UUID) -> str:
    """Return the key prefix of all objects of a run."""
    return f"runs/{run_id}/"


def run_of(key: str) -> UUID | None:
    """Return the run that has the object of this key, or None if it isn't a run's."""
    with suppress(ValueError, IndexError):
        return UUID(key.split("/")[1])
    return None


def _samples(workspace: Workspace, store: ObjectStore, now: datetime) -> Iterator[PlannedDeletion]:
    """Yield the objects that have a row: single samples, tiers, steps, events and artefacts."""
    owners: dict[str, tuple[Kind, UUID]] = {}
    for chunk in due.raw_chunks(workspace, now):
        owners[chunk.object_key] = ("raw", chunk.node.attempt.run_id)
    for chunk in due.tier_chunks(workspace, now):
        owners[chunk.object_key] = ("tiers", chunk.node.attempt.run_id)
    for key, run_id in due.left_segments(workspace, now):
        owners[key] = ("tiers", run_id)
    for artefact in due.artefacts(workspace, now):
        owners[artefact.object_key] = ("artefact", artefact.run_id)
    sizes = _sizes(store, {run_id for _, run_id in owners.values()})
    for key in sorted(owners):
        kind, run_id = owners[key]
        yield PlannedDeletion(kind, key, sizes.get(key, 0), run_id)


def _sizes(store: ObjectStore, run_ids: Iterable[UUID]) -> dict[str, int]:
    """Return the size in bytes of each key; one listing per run."""
    listings = (store.list(prefix(run_id)) for run_id in run_ids)
    return {stored.key: stored.size_bytes for listing in listings for stored in listing}

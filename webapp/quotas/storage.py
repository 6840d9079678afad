"""Counts what each workspace stores, from its rows.

Between two counts, Redis adds what is accepted. Each count begins from zero, so that whatever was
deleted, compacted or counted wrongly is right again with it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import F, Q, QuerySet, Sum

from advisor.store.objects import ObjectStore
from advisor.store.opening import open_store
from webapp.accounts.models import Workspace
from webapp.quotas import counters, deferral
from webapp.quotas.models import StorageUse
from webapp.runs.models import Artefact, Chunk, Segment

MOST_JOBS = 10
"""The most jobs that are named, the largest first."""
COMPACTED_WITHIN = timedelta(hours=3)
"""The object of a compacted segment is deleted after an hour. Older rows, of which there may be
hundreds of millions, aren't read."""
FORGOTTEN_AFTER = timedelta(days=7)
"""The time after which Redis forgets a workspace that is no longer counted."""
MOST_RUNS_LOOKED_UP = 200
"""The most runs whose sizes are looked up at a time, with chunks of an earlier version."""


def count(now: datetime) -> None:
    """Count all workspaces."""
    deferral.flush()
    _look_up_sizes(open_store(settings.OBJECTS_URL))
    workspaces = list(Workspace.objects.values_list("pk", flat=True))
    accepted = {pk: counters.ask_redis(_reader(pk), 0) for pk in workspaces}
    jobs = _bytes_by_job(now)
    for workspace_id in workspaces:
        _save(workspace_id, jobs[workspace_id], now)
        total = sum(jobs[workspace_id].values())
        counters.ask_redis(_writer(workspace_id, total, accepted[workspace_id]), None)


def _reader(workspace_id: int):  # type: ignore[no-untyped-def]
    """Return a function that reads what was accepted since the last count. What is accepted while
    the next one reads counts twice until the one after it, rather than not at all.
    """
    return lambda known: int(known.redis.hget(counters.storage(workspace_id), "since") or 0)


def _writer(workspace_id: int, total_bytes: int, accepted_bytes: int):  # type: ignore[no-untyped-def]
    def write(known: counters.Counters) -> None:
        key, pipeline = counters.storage(workspace_id), known.redis.pipeline()
        pipeline.hset(key, "counted", total_bytes)
        pipeline.hincrby(key, "since", -accepted_bytes)
        pipeline.expire(key, FORGOTTEN_AFTER)
        pipeline.execute()

    return write


def _save(workspace_id: int, jobs: Counter[int], now: datetime) -> None:
    StorageUse.objects.update_or_create(
        workspace_id=workspace_id,
        defaults={
            "size_bytes": sum(jobs.values()),
            "jobs": [list(pair) for pair in jobs.most_common(MOST_JOBS)],
            "counted_at": now,
        },
    )


def _bytes_by_job(now: datetime) -> dict[int, Counter[int]]:
    """Return the bytes of its objects for each workspace and job."""
    found: dict[int, Counter[int]] = defaultdict(Counter)
    for rows, run, size in _objects(now):
        of_jobs = rows.order_by().values_list(f"{run}__workspace", f"{run}__job")
        for workspace_id, job_id, size_bytes in of_jobs.annotate(size=Sum(size)):
            found[workspace_id][job_id] += size_bytes or 0
    return found


def _objects(now: datetime) -> Iterator[tuple[QuerySet, str, str]]:  # type: ignore[type-arg]
    """Yield rows with an object, the path to their run, and the field of their size."""
    is_hot = Q(compacted_at=None) | Q(compacted_at__gt=now - COMPACTED_WITHIN)
    hot = Segment.objects.with_object().filter(is_hot)
    yield hot, "session__node__attempt__run", "body_bytes"
    yield Chunk.objects.all(), "node__attempt__run", "size_bytes"
    yield Artefact.objects.all(), "run", "size_bytes"


def _look_up_sizes(store: ObjectStore) -> None:
    """Look up the sizes of chunks that an earlier version wrote."""
    unknown = Chunk.objects.filter(size_bytes=None).order_by()
    runs = unknown.values_list(F("node__attempt__run"), flat=True).distinct()
    for run_id in list(runs[:MOST_RUNS_LOOKED_UP]):
        _look_up_sizes_of(run_id, store)


def _look_up_sizes_of(run_id: UUID, store: ObjectStore) -> None:
    """Look up the sizes of a run's chunks. An object that is gone takes nothing."""
    sizes = {stored.key: stored.size_bytes for stored in store.list(f"runs/{run_id}/")}
    chunks = list(Chunk.objects.filter(node__attempt__run=run_id, size_bytes=None))
    for chunk in chunks:
        chunk.size_bytes = sizes.get(chunk.object_key, 0)
    Chunk.objects.bulk_update(chunks, ["size_bytes"], batch_size=500)

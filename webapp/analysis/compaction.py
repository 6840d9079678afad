"""Compacts small segments to one Parquet file per node and hour, and to tiers. Rows are swapped in
one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.urls import reverse
from django.utils import timezone

from advisor.store.compaction import compact
from advisor.store.index import ChunkRef, from_ms
from advisor.store.objects import ObjectStore
from advisor.store.opening import open_store
from webapp.analysis.models import Compaction
from webapp.background import claims, conditions, fairness
from webapp.background.kinds import Kind, Limits
from webapp.database import object_hold
from webapp.runs.history import node_history
from webapp.runs.models import Chunk, Node, Run, Segment

HOUR = timedelta(hours=1)
# Segments often arrive some minutes late; any later ones need another compaction.
SETTLED_AFTER = timedelta(minutes=10)
# Reading a hot segment takes about 1 ms, so a run's page should not read hundreds.
MOST_HOT = 60
# A run's last segments may arrive after its end.
ENDED_BEFORE = timedelta(minutes=1)
ENDED = (Run.FINISHED, Run.FAILED, Run.STOPPED, Run.LOST)
# A reader that listed an object before the swap may still open it.
GRACE = timedelta(hours=1)
DELETED_AT_ONCE = 200
MOST_HOURS = 24
"""Compacted by one task: the next one may be another node's."""
KIND = Kind(
    id="compaction",
    title="Compaction",
    model=Compaction,
    task="analysis.compact",
    key="node_id",
    limits=Limits(
        # As long as Celery lets a task run: a node with many hours takes minutes.
        lease=timedelta(seconds=settings.CELERY_TASK_TIME_LIMIT),
        hand_out_again_after=timedelta(minutes=5),
        max_attempts=30,
        first_pause=timedelta(minutes=1),
        longest_pause=timedelta(hours=1),
        # Analyses always have a worker.
        most_queued=fairness.MOST_OF_ONE,
        is_shared=True,
    ),
    workspace="node__attempt__run__workspace",
    subject=lambda compaction: f"{compaction.node.attempt.run}, {compaction.node}",
    address=lambda compaction: reverse("dashboard:run", args=[compaction.node.attempt.run_id]),
    related=("node__attempt__run__job",),
    shown={
        "node__attempt__run__deleted_at": None,
        "node__attempt__run__job__deleted_at": None,
    },
)


def due_nodes(now: datetime) -> list[int]:
    """Nodes with hot segments of an ended run or a passed hour, or with too many of them."""
    ended = Q(session__node__attempt__run__state__in=ENDED, received_at__lt=now - ENDED_BEFORE)
    passed = Q(received_at__lt=now - HOUR - SETTLED_AFTER)
    hot = Segment.objects.filter(ended | passed, compacted_at=None).order_by()
    waiting = set(hot.values_list("session__node_id", flat=True).distinct())
    return sorted(waiting | set(_crowded_nodes()))


def want_due(now: datetime) -> None:
    """Queue each node that is due. Nodes that are queued or given up are left unchanged, unless
    more has arrived since."""
    nodes = due_nodes(now)
    new = [Compaction(node_id=node_id) for node_id in nodes]
    Compaction.objects.bulk_create(new, ignore_conflicts=True, batch_size=500)
    arrived = Segment.objects.filter(
        session__node=OuterRef("node"), compacted_at=None, received_at__gt=OuterRef("given_up_at")
    )
    rows = Compaction.objects.filter(~conditions.pending() | Exists(arrived), node_id__in=nodes)
    claims.want(rows, now)


def _crowded_nodes() -> list[int]:
    hot = Segment.objects.filter(compacted_at=None).order_by().values("session__node_id")
    crowded = hot.annotate(hot=Count("pk")).filter(hot__gte=MOST_HOT)
    return list(crowded.values_list("session__node_id", flat=True))


def compact_node(node_id: int) -> bool:
    """Compact the first hours of a node that have hot segments; True: there are more.

    Safe to repeat and to interrupt.

    Raises:
        TooLargeError: an hour has more than fits into memory.
    """
    node = Node.objects.select_related("attempt").get(pk=node_id)
    history = node_history(node)
    hours = sorted({ms for ref in history.segments for ms in ref.hours_ms})
    chosen = set(hours[:MOST_HOURS])
    refs = tuple(ref for ref in history.segments if chosen.issuperset(ref.hours_ms))
    # A segment of more hours than that is compacted alone.
    refs = refs or history.segments[:1]
    chosen = {ms for ref in refs for ms in ref.hours_ms}
    if not refs:
        return False
    kept = tuple(ref for ref in history.chunks if ref.hour_ms in chosen)
    part = replace(history, segments=refs, chunks=kept)
    store = open_store(settings.OBJECTS_URL)
    prefix = f"runs/{node.attempt.run_id}"
    starts = [from_ms(ms) for ms in sorted(chosen)]
    chunks = [ref for hour in starts for ref in compact(store, part, hour, prefix)]
    keys = [ref.key for ref in refs]
    _swap(node, list(_hot(node).filter(object_key__in=keys)), starts, chunks)
    return len(refs) < len(history.segments)


@transaction.atomic
def _swap(node: Node, hot: list[Segment], hours: list[datetime], refs: list[ChunkRef]) -> None:
    """Readers see either the segments or their chunks. Another worker's swap wins over ours."""
    Node.objects.select_for_update().get(pk=node.pk)
    ours = _hot(node).filter(pk__in=[segment.pk for segment in hot])
    if ours.count() != len(hot):
        return
    keys = [ref.key for ref in refs]
    for hour in hours:
        replaced = Chunk.objects.filter(node=node, starts_at__gte=hour, starts_at__lt=hour + HOUR)
        replaced.exclude(object_key__in=keys).update(replaced_at=timezone.now())
    for ref in refs:
        _save_chunk(node, ref)
    ours.update(compacted_at=timezone.now())


def _save_chunk(node: Node, ref: ChunkRef) -> None:
    Chunk.objects.update_or_create(
        object_key=ref.key,
        defaults={
            "node": node,
            "kind": ref.kind,
            "tier_seconds": ref.tier_seconds,
            "starts_at": ref.starts_at,
            "ends_at": ref.ends_at,
            "size_bytes": ref.size_bytes,
            "replaced_at": None,
        },
    )


def delete_replaced(now: datetime) -> None:
    """Delete objects whose samples are in newer chunks, once the grace period is over.

    Rows are removed first. If this is killed in between, an object without a row is left, which the
    sweep of orphans deletes.

    Raises:
        BackupRunningError: a backup began, so the rest is left for the next call.
    """
    store = open_store(settings.OBJECTS_URL)
    chunks = Chunk.objects.filter(replaced_at__lt=now - GRACE)
    for old in _batches(chunks):
        with object_hold.deletion():
            Chunk.objects.filter(pk__in=old).delete()
        _delete_objects(store, old)
    segments = Segment.objects.filter(compacted_at__lt=now - GRACE).exclude(object_key="")
    for old in _batches(segments[:5000]):
        with object_hold.deletion():
            Segment.objects.filter(pk__in=old).update(object_key="")
        _delete_objects(store, old)


def _batches(rows: QuerySet[Any]) -> Iterator[dict[int, str]]:
    """Primary key -> key of the object, some rows at a time."""
    found = iter(list(rows.values_list("pk", "object_key")))
    while batch := dict(islice(found, DELETED_AT_ONCE)):
        yield batch


def _delete_objects(store: ObjectStore, keys: dict[int, str]) -> None:
    for key in keys.values():
        store.delete(key)


def _hot(node: Node) -> QuerySet[Segment]:
    return Segment.objects.filter(session__node=node, compacted_at=None)

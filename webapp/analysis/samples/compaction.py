"""Merges a node's newest segments to tails, compacts its hours to one Parquet file each and to
tiers, and makes chunks of many hours for charts. Rows are swapped in one transaction each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.urls import reverse
from django.utils import timezone

from advisor.store.compaction import compact, merge
from advisor.store.index import ChunkRef, NodeHistory, SegmentRef, from_ms
from advisor.store.objects import ObjectStore
from advisor.store.opening import open_store
from webapp.analysis.models import Compaction
from webapp.analysis.samples import chart_chunks, chunk_rows, column_chunks
from webapp.background import claims, conditions, fairness
from webapp.background.kinds import WorkKind, WorkLimits
from webapp.database import object_hold
from webapp.runs.history import node_history
from webapp.runs.models import Chunk, Node, Run, Segment

HOUR = timedelta(hours=1)
# Segments often arrive some minutes late; any later ones need another compaction.
SETTLED_AFTER = timedelta(minutes=10)
# Reading a hot segment takes about 1 ms, so a run's page should read a handful. Agents send six a
# minute, so with half of them a node is merged every minute, and never has those of two.
MOST_HOT = 3
# The nodes with the most hot segments come first: this is a few seconds' work a minute.
MOST_MERGED = 100
# A larger tail is left as it is, and the next segments begin another.
LARGE_TAIL_BYTES = 500_000
# A run's last segments may arrive after its end.
ENDED_BEFORE = timedelta(minutes=1)
ENDED = (Run.FINISHED, Run.FAILED, Run.STOPPED, Run.LOST)
# A reader that listed an object before the swap may still open it.
GRACE, TAIL_GRACE = timedelta(hours=1), timedelta(minutes=10)
DELETED_AT_ONCE = 200
MOST_HOURS = 24
"""The most hours that one task compacts: the next one may be another node's."""
KIND = WorkKind(
    id="compaction",
    title="Compaction",
    model=Compaction,
    work="webapp.analysis.tasks.compact",
    key="node_id",
    limits=WorkLimits(
        # The lease lasts as long as a compaction may take: a node with many hours takes minutes.
        lease=timedelta(minutes=10),
        max_attempts=30,
        first_pause=timedelta(minutes=1),
        longest_pause=timedelta(hours=1),
        # Analyses always have a worker.
        at_once=fairness.MOST_OF_ONE,
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
    """Return nodes with hot segments or tails of an ended run or a passed hour, or with many hot
    segments; and some whose charts' chunks an earlier release didn't make.
    """
    ended = Q(session__node__attempt__run__state__in=ENDED, received_at__lt=now - ENDED_BEFORE)
    passed = Q(received_at__lt=now - HOUR - SETTLED_AFTER)
    hot = Segment.objects.filter(ended | passed, compacted_at=None).order_by()
    waiting = set(hot.values_list("session__node_id", flat=True).distinct())
    waiting |= set(_settled_tails(now).values_list("node_id", flat=True))
    return sorted(waiting | set(_crowded_nodes()) | set(chart_chunks.outdated_nodes()))


def want_due(now: datetime) -> None:
    """Queue each node that is due. Nodes that are queued or given up are left unchanged, unless
    more has arrived since."""
    nodes = due_nodes(now)
    new = [Compaction(node_id=node_id) for node_id in nodes]
    Compaction.objects.bulk_create(new, ignore_conflicts=True, batch_size=500)
    arrived = Segment.objects.filter(
        session__node=OuterRef("node"), compacted_at=None, received_at__gt=OuterRef("given_up_at")
    )
    rows = Compaction.objects.filter(~conditions.has_news() | Exists(arrived), node_id__in=nodes)
    claims.mark_due(rows, now)


def _settled_tails(now: datetime) -> QuerySet[Chunk]:
    run = "node__attempt__run__"
    silent = Q(**{f"{run}state__in": ENDED, f"{run}last_received_at__lt": now - ENDED_BEFORE})
    tails = Chunk.objects.filter(kind="tail", replaced_at=None)
    return tails.filter(silent | Q(ends_at__lte=now - SETTLED_AFTER))


def _crowded_nodes() -> list[int]:
    hot = Segment.objects.filter(compacted_at=None).order_by().values("session__node_id")
    crowded = hot.annotate(hot=Count("pk")).filter(hot__gte=MOST_HOT).order_by("-hot")
    return list(crowded.values_list("session__node_id", flat=True)[:MOST_MERGED])


def compact_node(node_id: int) -> bool:
    """Compact the first settled hours of a node that have hot segments or tails, and merge the
    segments of later hours to tails; return True if there is more to compact.

    Safe to repeat and to interrupt.

    Raises:
        TooLargeError: an hour has more than fits into memory.
    """
    node = Node.objects.select_related("attempt__run").get(pk=node_id)
    settled_before = _settled_before_ms(node, timezone.now())
    history = node_history(node)
    recent = [ref for ref in history.segments if ref.hours_ms[-1] >= settled_before]
    if recent:
        _merge(node, history, recent)
    if not any(hour_ms < settled_before for hour_ms in _waiting_hours(history)):
        return chart_chunks.renew(node, settled_before)
    has_more = _compact_settled(node, settled_before)
    return has_more or chart_chunks.renew(node, settled_before)


def _settled_before_ms(node: Node, now: datetime) -> float:
    """Return the time (Unix ms) before which hours get no more segments, as far as can be told."""
    if node.attempt.run.state in ENDED:
        return float("inf")
    return (now - HOUR - SETTLED_AFTER).timestamp() * 1000


def _waiting_hours(history: NodeHistory) -> set[int]:
    """Return the hours with segments or tails, in Unix ms."""
    waiting = {ms for ref in history.segments for ms in ref.hours_ms}
    return waiting | {ref.hour_ms for ref in history.chunks if ref.kind == "tail"}


def _merge(node: Node, history: NodeHistory, segments: list[SegmentRef]) -> None:
    """Merge each hour's segments into its youngest tail, or a new one if that is large."""
    store, prefix = open_store(settings.OBJECTS_URL), f"runs/{node.attempt.run_id}"
    made, replaced = [], []
    for hour_ms in sorted({ms for ref in segments for ms in ref.hours_ms}):
        own = tuple(ref for ref in segments if hour_ms in ref.hours_ms)
        tails = [r for r in history.chunks if r.kind == "tail" and r.hour_ms == hour_ms]
        joined = [ref for ref in tails if (ref.size_bytes or 0) < LARGE_TAIL_BYTES]
        part = replace(history, segments=own, chunks=tuple(joined))
        tail = merge(store, part, from_ms(hour_ms), prefix)
        if tail is not None:
            made.append(tail)
            replaced += joined
    _swap(node, segments, replaced, made)


def _compact_settled(node: Node, settled_before: float) -> bool:
    """Compact the settled hours; return True if there are more than are compacted at once."""
    history = node_history(node)
    hours = sorted(ms for ms in _waiting_hours(history) if ms < settled_before)
    chosen = set(hours[:MOST_HOURS])
    refs = tuple(ref for ref in history.segments if chosen.issuperset(ref.hours_ms))
    # A segment of more hours than that is compacted alone.
    refs = refs or history.segments[: len(hours) > MOST_HOURS]
    chosen |= {ms for ref in refs for ms in ref.hours_ms}
    if not chosen:
        return False
    kept = tuple(ref for ref in history.chunks if ref.hour_ms in chosen)
    part = replace(history, segments=refs, chunks=kept)
    store, prefix = open_store(settings.OBJECTS_URL), f"runs/{node.attempt.run_id}"
    chunks = [ref for ms in sorted(chosen) for ref in compact(store, part, from_ms(ms), prefix)]
    _swap(node, refs, kept, chunks)
    return len(hours) > MOST_HOURS


@transaction.atomic
def _swap(
    node: Node, hot: Sequence[SegmentRef], old: Sequence[ChunkRef], new: Sequence[ChunkRef]
) -> None:
    """Swap the rows, so that readers see either the segments and old chunks or the new ones.
    Another worker's swap wins over ours.
    """
    Node.objects.select_for_update().get(pk=node.pk)
    segments = [ref.key for ref in hot]
    ours = _hot(node).filter(object_key__in=segments)
    if ours.count() == len(segments) and chunk_rows.replace(node, old, new):
        ours.update(compacted_at=timezone.now())


def delete_replaced(now: datetime) -> None:
    """Delete objects whose samples are in newer chunks, once the grace period is over.

    Rows are removed first. If this is killed in between, an object without a row is left, which the
    sweep of orphans deletes.

    Raises:
        BackupRunningError: a backup began, so the rest is left for the next call.
    """
    store = open_store(settings.OBJECTS_URL)
    read_once = Q(kind__in=("tail", column_chunks.KIND), replaced_at__lt=now - TAIL_GRACE)
    chunks = Chunk.objects.filter(read_once | Q(replaced_at__lt=now - GRACE))
    for old in _batches(chunks):
        with object_hold.deletion():
            Chunk.objects.filter(pk__in=old).delete()
        _delete_objects(store, old)
    moved = Segment.objects.with_object().filter(compacted_at__lt=now - GRACE)
    segments = moved.order_by("compacted_at")
    for old in _batches(segments[:5000]):
        with object_hold.deletion():
            Segment.objects.filter(pk__in=old).update(object_key="")
        _delete_objects(store, old)


def _batches(rows: QuerySet[Any]) -> Iterator[dict[int, str]]:
    """Yield the keys of objects by the rows' primary keys, some rows at a time."""
    found = iter(list(rows.values_list("pk", "object_key")))
    while batch := dict(islice(found, DELETED_AT_ONCE)):
        yield batch


def _delete_objects(store: ObjectStore, keys: dict[int, str]) -> None:
    for key in keys.values():
        store.delete(key)


def _hot(node: Node) -> QuerySet[Segment]:
    return Segment.objects.filter(session__node=node, compacted_at=None)

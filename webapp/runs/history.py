"""Converts rows to the index that the store reads by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from django.db.models import Q, QuerySet, prefetch_related_objects
from trimtab.wire import Gpu, NodeFacts

from advisor.machine import hardware
from advisor.store.chart_plan import Buckets, plan
from advisor.store.index import (
    CHART_KINDS,
    HOUR_KINDS,
    HOUR_MS,
    ChunkRef,
    NodeHistory,
    SegmentRef,
    from_ms,
    to_ms,
)
from rules.frame import Hardware
from webapp.database.prepared import Models, Slot
from webapp.runs.models import Chunk, Node, Run, Segment

_OF_HOURS = tuple(zip(("samples", "steps"), CHART_KINDS, strict=True))
"""Kinds of chunks of one hour, each with that of many hours."""


def nodes_of(run: Run) -> list[Node]:
    """Return the run's nodes in order of appearance."""
    return list(Node.objects.filter(attempt__run=run).order_by("number"))


def with_sessions(run: Run) -> list[Node]:
    """Return the run's nodes in order of appearance, with attempts and sessions."""
    nodes = _nodes_of(run=run.pk)
    prefetch_related_objects(nodes, "sessions")
    return nodes


@Models
def _nodes_of() -> QuerySet[Node]:
    of_run = Node.objects.filter(attempt__run=Slot("run", Run._meta.pk))
    return of_run.select_related("attempt")


def node_histories(run: Run) -> list[NodeHistory]:
    """Return every node of a run with its stored segments and chunks."""
    nodes = Node.objects.filter(attempt__run=run).prefetch_related("sessions")
    return [node_history(node) for node in nodes]


def node_history(node: Node) -> NodeHistory:
    """Return everything that the node's hours hold, without the chunks of many hours, which charts
    read.
    """
    # Segments first: one that is merged meanwhile is among the tail's members.
    hot = tuple(_hot(node))
    chunks = _hour_chunks(node=node.pk)
    return NodeHistory(
        key=node.key,
        hardware=hardware(facts(node)),
        intervals=tuple(session.interval for session in node.sessions.all()),
        segments=hot,
        chunks=tuple(chunk_refs(chunks)),
    )


def chart_history(node: Node, buckets: Buckets) -> NodeHistory:
    """Return what a chart of these buckets reads of a node: a few rows, however long it ran.

    Chunks of single hours are left out where one of many hours has the same.
    """
    [history] = chart_histories([node], buckets)
    return history


def chart_histories(nodes: Sequence[Node], buckets: Buckets) -> list[NodeHistory]:
    """Return `chart_history` of each node, in three queries for any number of nodes."""
    low = from_ms(buckets.start_ms // HOUR_MS * HOUR_MS)
    drawn = Chunk.objects.filter(
        node__in=nodes, replaced_at=None, starts_at__lt=from_ms(buckets.end_ms), ends_at__gt=low
    )
    large = Q(kind__in=CHART_KINDS, tier_seconds__lte=buckets.tier_seconds) | Q(kind="tail")
    # Segments first: one that is merged meanwhile is among the tail's members.
    hot = _hot_by_node(nodes)
    chunks = _refs_by_node(drawn.filter(large))
    known = [
        NodeHistory(n.key, Hardware(), (), tuple(hot[n.pk]), tuple(chunks[n.pk])) for n in nodes
    ]
    hours = range(to_ms(low), buckets.end_ms, HOUR_MS)
    rest = [
        {kind: set(plan(history, chart, hours, buckets).hours) for kind, chart in _OF_HOURS}
        for history in known
    ]
    alone = Q(pk__in=())
    for kind, _ in _OF_HOURS:
        alone |= Q(kind=kind) & _within(sorted(set().union(*(each[kind] for each in rest))))
    singles = _refs_by_node(drawn.filter(alone))
    return [
        replace(
            history,
            chunks=(*history.chunks, *(r for r in singles[n.pk] if r.hour_ms in own[r.kind])),
        )
        for n, history, own in zip(nodes, known, rest, strict=True)
    ]


def whole_history(node: Node, charts: NodeHistory) -> NodeHistory:
    """Return the same as `node_history`, without hardware.

    Args:
        charts: what a chart reads of the node: with the same segments.
    """
    chunks = Chunk.objects.filter(node=node, replaced_at=None, kind__in=HOUR_KINDS)
    return replace(charts, chunks=tuple(chunk_refs(chunks)))


def _within(hours_ms: list[int]) -> Q:
    """Return the condition for chunks of these hours, given in order."""
    found = Q(pk__in=())
    ends = [i for i, (a, b) in enumerate(pairwise(hours_ms), 1) if b - a > HOUR_MS]
    for low, high in pairwise([0, *ends, len(hours_ms)]):
        if high > low:
            last = from_ms(hours_ms[high - 1])
            found |= Q(starts_at__gte=from_ms(hours_ms[low]), starts_at__lte=last)
    return found


def _hot_by_node(nodes: Sequence[Node]) -> Mapping[int, list[SegmentRef]]:
    found: dict[int, list[SegmentRef]] = defaultdict(list)
    rows = Segment.objects.filter(session__node__in=nodes, compacted_at=None)
    for row in rows.select_related("session"):
        found[row.session.node_id] += segment_refs([row])
    return found


def _refs_by_node(chunks: Iterable[Chunk]) -> Mapping[int, list[ChunkRef]]:
    found: dict[int, list[ChunkRef]] = defaultdict(list)
    for chunk in chunks:
        found[chunk.node_id] += chunk_refs([chunk])
    return found


def _hot(node: Node) -> Iterable[SegmentRef]:
    return segment_refs(_hot_segments(node=node.pk))


@Models
def _hot_segments() -> QuerySet[Segment]:
    hot = Segment.objects.filter(session__node=Slot("node", Node._meta.pk), compacted_at=None)
    return hot.select_related("session")


@Models
def _hour_chunks() -> QuerySet[Chunk]:
    chunks = Chunk.objects.filter(node=Slot("node", Node._meta.pk), replaced_at=None)
    return chunks.filter(kind__in=HOUR_KINDS)


def facts(node: Node) -> NodeFacts:
    """Return the machine as the agent declared it or a person corrected it."""
    return NodeFacts(
        machine_id=node.machine_id,
        hostname=node.hostname,
        provider=node.provider,
        service=node.service,
        region=node.region,
        zone=node.zone,
        instance_type=node.instance_type,
        purchase_option=node.purchase_option,
        owns_machine=node.owns_machine,
        vcpus=node.vcpus,
        effective_cpus=node.effective_cpus,
        memory_bytes=node.memory_bytes,
        effective_memory_bytes=node.effective_memory_bytes,
        cpu_model=node.cpu_model,
        gpus=[_gpu(document) for document in node.gpus],
    )


def _gpu(document: Mapping[str, Any]) -> Gpu:
    return Gpu(
        model=document.get("model", ""),
        memory_bytes=document.get("memory_bytes", 0),
        uuid=document.get("uuid", ""),
        allocated=document.get("allocated", True),
    )


def segment_refs(segments: Iterable[Segment]) -> Iterable[SegmentRef]:
    for segment in segments:
        yield SegmentRef(
            key=segment.object_key,
            session_id=str(segment.session_id),
            seq=segment.seq,
            session_started_at=segment.session.corrected_started_at,
            start_ms=segment.start_ms,
            duration_ms=segment.duration_ms,
            sample_count=segment.sample_count,
            resolution_ms=segment.resolution_ms,
        )


def chunk_refs(chunks: Iterable[Chunk]) -> Iterable[ChunkRef]:
    for chunk in chunks:
        yield ChunkRef(
            key=chunk.object_key,
            kind=chunk.kind,  # type: ignore[arg-type]
            tier_seconds=chunk.tier_seconds,
            starts_at=chunk.starts_at,
            ends_at=chunk.ends_at,
            size_bytes=chunk.size_bytes,
        )

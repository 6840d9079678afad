"""Rows to the plain index that the store reads by."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.store.index import ChunkRef, NodeHistory, SegmentRef
from rules.frame import GpuHardware, Hardware
from webapp.runs.models import Chunk, Node, Run, Segment


def node_histories(run: Run) -> list[NodeHistory]:
    """Every node of a run with what is stored of it."""
    nodes = Node.objects.filter(attempt__run=run).prefetch_related("sessions")
    return [node_history(node) for node in nodes]


def node_history(node: Node) -> NodeHistory:
    hot = Segment.objects.filter(session__node=node, compacted_at=None).select_related("session")
    chunks = Chunk.objects.filter(node=node, replaced_at=None)
    return NodeHistory(
        key=node.key,
        hardware=hardware(node),
        intervals=tuple(session.interval for session in node.sessions.all()),
        segments=tuple(segment_refs(hot)),
        chunks=tuple(chunk_refs(chunks)),
    )


def hardware(node: Node) -> Hardware:
    gpus = tuple(
        GpuHardware(gpu["model"], gpu["memory_bytes"], gpu.get("allocated", True))
        for gpu in node.gpus
    )
    return Hardware(
        instance_type=node.instance_type,
        vcpus=node.vcpus,
        effective_cpus=node.effective_cpus,
        memory_bytes=node.effective_memory_bytes or node.memory_bytes,
        gpus=gpus,
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
        )


def chunk_refs(chunks: Iterable[Chunk]) -> Iterable[ChunkRef]:
    for chunk in chunks:
        yield ChunkRef(
            key=chunk.object_key,
            kind=chunk.kind,  # type: ignore[arg-type]
            tier_seconds=chunk.tier_seconds,
            starts_at=chunk.starts_at,
            ends_at=chunk.ends_at,
        )

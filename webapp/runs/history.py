"""Converts rows to the index that the store reads by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trimtab.wire import Gpu, NodeFacts

from advisor.machine import hardware
from advisor.store.index import ChunkRef, NodeHistory, SegmentRef
from webapp.runs.models import Chunk, Node, Run, Segment


def node_histories(run: Run) -> list[NodeHistory]:
    """Every node of a run with its stored segments and chunks."""
    nodes = Node.objects.filter(attempt__run=run).prefetch_related("sessions")
    return [node_history(node) for node in nodes]


def node_history(node: Node) -> NodeHistory:
    hot = Segment.objects.filter(session__node=node, compacted_at=None).select_related("session")
    chunks = Chunk.objects.filter(node=node, replaced_at=None)
    return NodeHistory(
        key=node.key,
        hardware=hardware(facts(node)),
        intervals=tuple(session.interval for session in node.sessions.all()),
        segments=tuple(segment_refs(hot)),
        chunks=tuple(chunk_refs(chunks)),
    )


def facts(node: Node) -> NodeFacts:
    """The machine as the agent declared it or a person corrected it."""
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

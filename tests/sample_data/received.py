"""The service's data of the simulated runs after their upload: decoded bodies, and frames."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from trimtab.wire import Declaration, NodeFacts, Segment, decode_declaration, decode_segment

from advisor.store.folder import FolderStore
from advisor.store.frames import load_frame
from advisor.store.index import NodeHistory, SegmentRef, from_ms
from rules.frame import GpuHardware, Hardware, RunFrame
from webapp.sample_data.load import DECLARATION_TYPE, uploads_of
from webapp.sample_data.simulation import SimulatedRun


@dataclass(frozen=True)
class Received:
    declarations: list[Declaration]
    segments: list[Segment]
    bodies: list[bytes]
    """The bodies of the segments, in their order."""


def received(run: SimulatedRun) -> Received:
    uploads = list(uploads_of(run))
    declared = [u.body for u in uploads if u.content_type == DECLARATION_TYPE]
    bodies = [u.body for u in uploads if u.content_type != DECLARATION_TYPE]
    declarations = [decode_declaration(body) for body in declared]
    return Received(declarations, [decode_segment(body) for body in bodies], bodies)


def frame_of(got: Received, folder: Path, resolution_seconds: float) -> RunFrame:
    """Return the run as the rules see it, by way of the store."""
    store, nodes = FolderStore(folder), []
    for declared in got.declarations:
        own = [
            (s, body)
            for s, body in zip(got.segments, got.bodies, strict=True)
            if s.machine_id == declared.node.machine_id
        ]
        refs = [_stored(store, segment, body) for segment, body in own]
        end = refs[-1].session_started_at + timedelta(
            milliseconds=refs[-1].start_ms + refs[-1].duration_ms
        )
        interval = (refs[0].session_started_at, end)
        machine = declared.node.hostname
        nodes.append(NodeHistory(machine, _hardware(declared.node), (interval,), tuple(refs), ()))
    started_at, ended_at = nodes[0].intervals[0]
    frame, unreadable = load_frame(store, nodes, started_at, ended_at, resolution_seconds, True)
    assert not unreadable
    return frame


def _stored(store: FolderStore, segment: Segment, body: bytes) -> SegmentRef:
    clock = segment.clock
    key = f"{clock.session_id}/{segment.seq}.segment"
    store.put(key, body)
    return SegmentRef(
        key=key,
        session_id=str(clock.session_id),
        seq=segment.seq,
        session_started_at=from_ms(clock.started_at_ns // 1_000_000),
        start_ms=segment.start_ms,
        duration_ms=segment.duration_ms,
    )


def _hardware(facts: NodeFacts) -> Hardware:
    return Hardware(
        instance_type=facts.instance_type,
        vcpus=facts.vcpus,
        effective_cpus=facts.effective_cpus,
        memory_bytes=facts.memory_bytes,
        gpus=tuple(GpuHardware(g.model, g.memory_bytes, g.allocated) for g in facts.gpus),
    )

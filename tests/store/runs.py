"""A small run in segments, for tests of the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from trimtab.wire import Block, Event, Segment, SessionClock, StepBlock, encode_segment

from advisor.store.index import NodeHistory, SegmentRef
from advisor.store.objects import ObjectStore
from rules.frame import Hardware

SESSION = UUID(int=7)
# Ten seconds before the hour, so that compaction has to split it.
START = datetime(2026, 3, 1, 11, 59, 30, 250_000, tzinfo=UTC)
SEGMENT_MS = 10_000


def segment(seq: int, values: list[float | None]) -> Segment:
    """Ten seconds: a gauge as given, a counter that counts ticks, two steps, one event."""
    ticks = len(values)
    times = [i * SEGMENT_MS // ticks for i in range(ticks)]
    counter = [seq * 1_000_003 + i * 4096 for i in range(ticks)]
    return Segment(
        run_id=UUID(int=1),
        job="job",
        attempt=0,
        machine_id="m",
        clock=SessionClock(SESSION, "boot", 0, 0),
        seq=seq,
        start_ms=seq * SEGMENT_MS,
        duration_ms=SEGMENT_MS,
        resolution_ms=500,
        blocks=[
            Block(times, {"host.cpu_busy_pct": list(values), "disk.read_bytes_total": counter})
        ],
        steps=[
            StepBlock(0, "train", [10, 5_000_000], [4_000_000] * 2, [1_000_000, None], [32, 32])
        ],
        events=[Event(9_999, "metric", {"name": "loss", "value": float(seq)})],
    )


def store_segments(
    store: ObjectStore, segments: list[Segment], session_start: datetime = START
) -> NodeHistory:
    refs = []
    for each in segments:
        key = f"runs/1/{each.seq:09d}.segment"
        store.put(key, encode_segment(each))
        refs.append(
            SegmentRef(key, str(SESSION), each.seq, session_start, each.start_ms, each.duration_ms)
        )
    end = session_start + timedelta(milliseconds=SEGMENT_MS * len(segments))
    return NodeHistory("n1", Hardware(vcpus=2), ((session_start, end),), tuple(refs), ())

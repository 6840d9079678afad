"""A small run in segments, for tests of the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pandas as pd
from trimtab.wire import Block, Event, Segment, SessionClock, StepBlock, encode_segment
from trimtab.wire.segment import Number

from advisor.store.compaction import compact
from advisor.store.frames import load_frame
from advisor.store.index import NodeHistory, SegmentRef
from advisor.store.objects import ObjectStore
from rules.frame import Hardware, NodeFrame

SESSION = UUID(int=7)
# Half a minute before the hour, so that compaction has to split it.
START = datetime(2026, 3, 1, 11, 59, 30, 250_000, tzinfo=UTC)
SEGMENT_MS = 10_000
CPU, DISK = "host.cpu_busy_pct", "disk.read_bytes_total"


def segment(seq: int, values: list[float | None], session: UUID = SESSION) -> Segment:
    """Return ten seconds: a gauge as given, a counter that counts ticks, two steps, one event."""
    ticks = len(values)
    times = [i * SEGMENT_MS // ticks for i in range(ticks)]
    counter: list[Number] = [seq * 1_000_003 + i * 4096 for i in range(ticks)]
    steps = StepBlock(0, "train", [10, 5_000_000], [4_000_000] * 2, [1_000_000, None], [32, 32])
    event = Event(9_999, "metric", {"name": "loss", "value": float(seq)})
    made = of_blocks(seq, [Block(times, {CPU: list(values), DISK: counter})], session)
    return replace(made, steps=[steps], events=[event])


def of_blocks(seq: int, blocks: list[Block], session: UUID = SESSION) -> Segment:
    """Return ten seconds that hold these blocks; by the machine's own clock it is two days
    earlier.
    """
    believed_ns = int((START - timedelta(days=2)).timestamp()) * 10**9
    return Segment(
        run_id=UUID(int=1),
        job="job",
        attempt=0,
        machine_id="m",
        clock=SessionClock(session, "boot", believed_ns, 0),
        seq=seq,
        start_ms=seq * SEGMENT_MS,
        duration_ms=SEGMENT_MS,
        resolution_ms=500,
        blocks=blocks,
    )


def store_segments(
    store: ObjectStore, segments: Iterable[Segment], session_start: datetime = START
) -> NodeHistory:
    refs = []
    for each in segments:
        session = each.clock.session_id
        key = f"runs/1/{session}/{each.seq:09d}.segment"
        store.put(key, encode_segment(each))
        refs.append(
            SegmentRef(key, str(session), each.seq, session_start, each.start_ms, each.duration_ms)
        )
    end = session_start + timedelta(milliseconds=SEGMENT_MS * len(refs))
    return NodeHistory("n1", Hardware(vcpus=2), ((session_start, end),), tuple(refs), ())


def joined(*histories: NodeHistory) -> NodeHistory:
    """Join one node with the segments of all."""
    segments = tuple(ref for history in histories for ref in history.segments)
    return replace(histories[0], segments=segments)


def hours_of(history: NodeHistory) -> list[datetime]:
    hours = {hour for ref in history.segments for hour in ref.hours_ms}
    return [datetime.fromtimestamp(hour / 1000, UTC) for hour in sorted(hours)]


def compacted(
    store: ObjectStore, history: NodeHistory, order: list[datetime] | None = None
) -> NodeHistory:
    """Compact the hours of its segments; chunks of other hours stay."""
    hours = hours_of(history) if order is None else order
    made = [ref for hour in hours for ref in compact(store, history, hour, "runs/1")]
    kept = [ref for ref in history.chunks if ref.starts_at not in hours]
    return replace(history, segments=(), chunks=(*kept, *made))


def frame_of(
    store: ObjectStore,
    history: NodeHistory,
    seconds: float,
    resolution_seconds: float = 1.0,
    start: datetime = START,
) -> NodeFrame:
    """Return the node's frame; every object must be readable."""
    end = start + timedelta(seconds=seconds)
    frame, unreadable = load_frame(store, [history], start, end, resolution_seconds, final=True)
    assert unreadable == ()
    assert frame.final
    return frame.nodes["n1"]


def assert_same(left: NodeFrame, right: NodeFrame) -> None:
    pd.testing.assert_frame_equal(left.samples, right.samples)
    pd.testing.assert_frame_equal(left.steps, right.steps)
    pd.testing.assert_frame_equal(left.events, right.events)

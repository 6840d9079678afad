"""A synthetic run in the store, to be read on any grid as the service reads the runs of agents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
import pandas as pd
from trimtab.wire import Block, Event, Segment, SessionClock, StepBlock, encode_segment

from advisor.store.compaction import HOUR, compact
from advisor.store.frames import load_frame
from advisor.store.index import NodeHistory, SegmentRef
from rules.frame import NodeFrame, RunFrame

START = datetime(2026, 3, 1, 9, 20, tzinfo=UTC)
SEGMENT_SAMPLES = 1_200


class Memory(dict[str, bytes]):
    """An object store that writes no files."""

    def put(self, key: str, body: bytes) -> None:
        self[key] = body

    def get(self, key: str) -> bytes:  # type: ignore[override]
        return self[key]


@dataclass(frozen=True)
class Stored:
    store: Memory
    frame: RunFrame
    nodes: tuple[NodeHistory, ...]

    def read(self, resolution_seconds: float, shift_seconds: float = 0.0) -> RunFrame:
        """Return the run on that grid, whose first cell begins `shift_seconds` before the first
        sample.
        """
        start = START - timedelta(seconds=shift_seconds)
        end = START + timedelta(seconds=self.frame.duration_seconds)
        final = self.frame.final
        read = load_frame(self.store, self.nodes, start, end, resolution_seconds, final)
        frame, unreadable = read
        assert not unreadable
        return frame


def stored(frame: RunFrame, store: Memory) -> Stored:
    """Upload a run in segments, then compact it like the hours of an ended run."""
    nodes = tuple(_stored(node, frame, store, n) for n, node in enumerate(frame.nodes.values()))
    return Stored(store, frame, nodes)


def without_raw_samples(run: Stored) -> Stored:
    """Return what is left of it once retention has deleted the raw samples: their tiers."""
    nodes = tuple(
        NodeHistory(n.key, n.hardware, n.intervals, (), tuple(r for r in n.chunks if not _raw(r)))
        for n in run.nodes
    )
    return Stored(run.store, run.frame, nodes)


def _raw(ref) -> bool:  # type: ignore[no-untyped-def]
    return ref.kind == "samples" and not ref.tier_seconds


def uploaded(frame: RunFrame, store: Memory, segment_seconds: float) -> Stored:
    """Upload a run in segments of that length, as those of a run that is still going on."""
    samples = round(segment_seconds / frame.resolution_seconds)
    every = enumerate(frame.nodes.values())
    nodes = tuple(_uploaded(node, frame, store, n, samples) for n, node in every)
    return Stored(store, frame, nodes)


def _uploaded(
    node: NodeFrame, frame: RunFrame, store: Memory, number: int, samples: int
) -> NodeHistory:
    session = UUID(int=number + 1)
    refs = []
    for segment in _segments(node, frame, session, samples):
        key = f"{session}/{segment.seq:06d}"
        store.put(key, encode_segment(segment))
        times = segment.start_ms, segment.duration_ms
        refs.append(SegmentRef(key, str(session), segment.seq, START, *times))
    end = START + timedelta(seconds=frame.duration_seconds)
    held = tuple((_at(a), _at(b)) for a, b in node.intervals) or ((START, end),)
    return NodeHistory(node.key, node.hardware, held, tuple(refs), ())


def _stored(node: NodeFrame, frame: RunFrame, store: Memory, number: int) -> NodeHistory:
    hot = _uploaded(node, frame, store, number, SEGMENT_SAMPLES)
    end = START + timedelta(seconds=frame.duration_seconds)
    first = START.replace(minute=0)
    hours = [first + n * HOUR for n in range(int((end - first) / HOUR) + 1)]
    chunks = tuple(ref for hour in hours for ref in compact(store, hot, hour, "run"))
    return NodeHistory(node.key, node.hardware, hot.intervals, (), chunks)


def _at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def _segments(node: NodeFrame, frame: RunFrame, session: UUID, samples: int) -> Iterator[Segment]:
    length = min(samples * frame.resolution_seconds, 36_000.0)
    for seq in range(int(np.ceil(frame.duration_seconds / length))):
        low = seq * length
        high = min(low + length, frame.duration_seconds)
        last = high >= frame.duration_seconds
        yield Segment(
            run_id=UUID(int=9),
            job="synthetic",
            attempt=0,
            machine_id=node.key,
            clock=SessionClock(session, "boot", 0, 0),
            seq=seq,
            start_ms=round(1000 * low),
            duration_ms=round(1000 * (high - low)),
            resolution_ms=round(1000 * frame.resolution_seconds),
            blocks=[_block(_between(node.samples, node.samples.index, low, high), low)],
            steps=list(_steps(_between(node.steps, node.steps["start_seconds"], low, high), low)),
            events=[
                Event(int(1000 * (at - low)), kind, dict(data))
                for at, kind, data in node.events.itertuples(index=False)
                if low <= at < high or (last and at >= high)
            ],
        )


def _between(table: pd.DataFrame, times: pd.Index, low: float, high: float) -> pd.DataFrame:
    at = np.asarray(times, dtype=float)
    return table[(at >= low) & (at < high)]


def _block(samples: pd.DataFrame, low: float) -> Block:
    # More digits than an agent sends would take most of the time of a test.
    rounded = samples.round(3)
    known = rounded.astype(object).where(rounded.notna(), None)
    times = [round(1000 * (at - low)) for at in samples.index]
    return Block(times, {str(name): known[name].tolist() for name in known})


def _steps(steps: pd.DataFrame, low: float) -> Iterator[StepBlock]:
    for (rank, phase), part in steps.groupby(["rank", "phase"]):
        waits = (part["data_wait_seconds"] * 1e6).round()
        yield StepBlock(
            rank=int(rank),
            phase=str(phase),
            start_us=_us(part["start_seconds"] - low),
            duration_us=_us(part["duration_seconds"]),
            data_wait_us=[None if np.isnan(wait) else int(wait) for wait in waits],
            samples=[int(samples) for samples in part["samples"]],
        )


def _us(seconds: pd.Series) -> list[int]:
    return [int(us) for us in (seconds * 1e6).round()]

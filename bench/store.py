"""The store on a realistic trace: bytes per sample, the growth of read times with a run's length,
and what reading an hour costs that isn't compacted yet.

    python -m bench.store            prints the figures
    python -m bench.store --check    exits with 1 if a promise is broken

Only sizes and ratios within one run on one machine are checked, never absolute times.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
from trimtab.wire import (
    Block,
    Segment,
    SessionClock,
    StepBlock,
    decode_segment,
    encode_segment,
)
from trimtab.wire.segment import Number

from advisor.store.compaction import compact
from advisor.store.folder import FolderStore
from advisor.store.frames import load_frame
from advisor.store.index import NodeHistory, SegmentRef
from advisor.store.objects import ObjectStore
from advisor.store.series import read_series
from bench.figures import note
from rules.frame import Hardware

BYTES_A_SAMPLE = 2.5
"""The promise for stored bytes after compaction, including tiers, steps and events."""
LONGER_RUN_RATIO = 4.5
"""Reading the same number of buckets of a run six times as long may cost this much more:
six files of a tier are opened for one of raw samples. Without tiers it would be six and more."""
HOT_HOUR_RATIO = 2.0
"""Reading three series of an hour of uploads may cost this many times decoding each upload once."""
SESSION = UUID(int=1)
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
HOURS, TICKS_AN_HOUR, TICKS_A_SEGMENT = 6, 7200, 20
SHOWN = ["cpu3.busy_pct", "gpu2.sm_active_pct", "disk.read5_bytes_total"]


@dataclass(frozen=True)
class Figures:
    segment_bytes_a_sample: float
    chunk_bytes_a_sample: float
    compaction_seconds_an_hour: float
    hot_hour_read_seconds: float
    hot_hour_decoding_seconds: float
    hour_read_seconds: float
    six_hours_read_seconds: float
    six_hours_frame_seconds: float

    @property
    def longer_run_ratio(self) -> float:
        return self.six_hours_read_seconds / self.hour_read_seconds

    @property
    def hot_hour_ratio(self) -> float:
        return self.hot_hour_read_seconds / self.hot_hour_decoding_seconds


def trace(rng: np.random.Generator, ticks: int) -> dict[str, list[Number]]:
    """Return 100 series: 32 whole percentages, 12 ratios, 36 counters, 15 gauges in bytes, 5
    constants.
    """
    walk = np.cumsum(rng.normal(0, 1.5, (ticks, 32)), axis=0)
    percent = np.clip(np.round(60 + 25 * np.sin(walk / 15) + rng.normal(0, 2, walk.shape)), 0, 100)
    ratios = np.round(np.clip(55 + rng.normal(0, 8, (ticks, 12)), 0, 100), 2)
    busy = rng.random((ticks, 36)) < np.linspace(0.05, 0.95, 36)
    counters = np.cumsum(busy * rng.integers(1, 4000, (ticks, 36)) * 512, axis=0) + 10**11
    pages = 4096 * np.cumsum(
        rng.integers(-40, 42, (ticks, 15)) * (rng.random((ticks, 15)) < 0.3), 0
    )
    columns: dict[str, list[Number]] = {}
    for i in range(32):
        columns[f"cpu{i}.busy_pct"] = percent[:, i].astype(int).tolist()
    for i in range(12):
        columns[f"gpu{i}.sm_active_pct"] = ratios[:, i].tolist()
    for i in range(36):
        columns[f"disk.read{i}_bytes_total"] = counters[:, i].tolist()
    for i in range(15):
        columns[f"tree.part{i}_bytes"] = (pages[:, i] + 8 * 1024**3).tolist()
    for i in range(5):
        columns[f"host.constant{i}_count"] = [i] * ticks
    return columns


def stored_run(store: ObjectStore) -> tuple[NodeHistory, int, int]:
    """Store six hours in 10 s segments with jittered ticks. Returns the history, samples and bytes
    written.
    """
    rng = np.random.default_rng(7)
    ticks = HOURS * TICKS_AN_HOUR
    columns = trace(rng, ticks)
    jitter_ms = rng.integers(0, 4, ticks).tolist()
    refs, size = [], 0
    for seq in range(ticks // TICKS_A_SEGMENT):
        segment = _segment(seq, columns, jitter_ms)
        body = encode_segment(segment)
        key = f"hot/{seq:09d}"
        store.put(key, body)
        size += len(body)
        refs.append(SegmentRef(key, str(SESSION), seq, START, segment.start_ms, 10_000))
    end = START + timedelta(hours=HOURS)
    return NodeHistory("n1", Hardware(), ((START, end),), tuple(refs), ()), ticks * 100, size


def _segment(seq: int, columns: dict[str, list[Number]], jitter_ms: list[int]) -> Segment:
    low, high = seq * TICKS_A_SEGMENT, (seq + 1) * TICKS_A_SEGMENT
    times = [500 * i + jitter_ms[low + i] for i in range(TICKS_A_SEGMENT)]
    block = Block(times, {name: values[low:high] for name, values in columns.items()})
    starts = [i * 250_000 + jitter_ms[low + i % 20] for i in range(40)]
    steps = StepBlock(0, "train", starts, [250_000 + j for j in starts], [9_000] * 40, [64] * 40)
    return Segment(
        run_id=UUID(int=2),
        job="bench",
        attempt=0,
        machine_id="m",
        clock=SessionClock(SESSION, "boot", 0, 0),
        seq=seq,
        start_ms=seq * 10_000,
        duration_ms=10_000,
        resolution_ms=500,
        blocks=[block],
        steps=[steps],
    )


def measure(store: ObjectStore) -> Figures:
    hot, samples, hot_bytes = stored_run(store)
    began = time.process_time()
    hours = [START + timedelta(hours=i) for i in range(HOURS)]
    chunks = tuple(ref for hour in hours for ref in compact(store, hot, hour, "run"))
    compaction_seconds = (time.process_time() - began) / HOURS
    cold = replace(hot, segments=(), chunks=chunks)
    return Figures(
        segment_bytes_a_sample=hot_bytes / samples,
        chunk_bytes_a_sample=sum(len(store.get(ref.key)) for ref in chunks) / samples,
        compaction_seconds_an_hour=compaction_seconds,
        hot_hour_read_seconds=_best(lambda: _read(store, hot, 1), 3),
        hot_hour_decoding_seconds=_best(lambda: _decode(store, hot), 3),
        hour_read_seconds=_best(lambda: _read(store, cold, 1), 9),
        six_hours_read_seconds=_best(lambda: _read(store, cold, HOURS), 9),
        six_hours_frame_seconds=_best(lambda: _frame(store, cold), 2),
    )


def _read(store: ObjectStore, node: NodeHistory, hours: int) -> None:
    views = read_series(store, [node], SHOWN, START, START + timedelta(hours=hours), 1000)
    assert len(views) == len(SHOWN)


def _decode(store: ObjectStore, node: NodeHistory) -> None:
    for ref in node.segments[: len(node.segments) // HOURS]:
        assert decode_segment(store.get(ref.key)).blocks


def _frame(store: ObjectStore, node: NodeHistory) -> None:
    frame, unreadable = load_frame(store, [node], START, START + timedelta(hours=HOURS), 10.0, True)
    assert not unreadable
    assert len(frame.nodes) == 1


def _best(call: Callable[[], None], times: int) -> float:
    """Return the CPU seconds of the fastest call, because other load only adds time."""
    durations = []
    for _ in range(times):
        began = time.process_time()
        call()
        durations.append(time.process_time() - began)
    return min(durations)


def broken_promises(measured: Figures) -> list[str]:
    ratio, hot = measured.longer_run_ratio, measured.hot_hour_ratio
    broken = []
    if measured.chunk_bytes_a_sample > BYTES_A_SAMPLE:
        broken.append(f"{measured.chunk_bytes_a_sample:.2f} bytes a sample, over {BYTES_A_SAMPLE}")
    if ratio > LONGER_RUN_RATIO:
        broken.append(f"six hours cost {ratio:.1f} x one hour, over {LONGER_RUN_RATIO}")
    if hot > HOT_HOUR_RATIO:
        broken.append(f"an hour of uploads costs {hot:.1f} x decoding, over {HOT_HOUR_RATIO}")
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a promise is broken")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(FolderStore(folder))
    for name, value in vars(measured).items():
        print(f"{name:32} {value:8.4f}")
    stored, ratio = measured.chunk_bytes_a_sample, measured.longer_run_ratio
    note("stored", f"{stored:.2f} bytes a sample", stored <= BYTES_A_SAMPLE)
    hot = measured.hot_hour_ratio
    note("hot_hour", f"{hot:.1f} times", hot <= HOT_HOUR_RATIO)
    note("longer_run", f"{ratio:.1f} times", ratio <= LONGER_RUN_RATIO)
    broken = broken_promises(measured)
    for promise in broken:
        print(f"broken: {promise}")
    return int(check and bool(broken))


if __name__ == "__main__":
    sys.exit(main())

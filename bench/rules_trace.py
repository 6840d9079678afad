"""A training of 80 minutes that can be repeated, in our stored form and in SageMaker's.

Ten series once a second and a step each quarter second, as in a real GPU training on one node:
48,320 samples and 19,599 steps per repetition, so twenty repetitions are 1.36 million records in 27
h.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from trimtab.wire import Block, Event, Segment, SessionClock, StepBlock, encode_segment

from advisor.store.compaction import compact
from advisor.store.folder import FolderStore
from advisor.store.index import NodeHistory, SegmentRef
from rules.frame import GpuHardware, Hardware

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
START_SECONDS = int(START.timestamp())
FOLD_SECONDS, FOLD_STEPS = 4832, 19_599
WARM_UP_SECONDS, SEGMENT_SECONDS = 120, 10
SESSION = UUID(int=1)
SERIES = {
    "cpu0.busy_pct": ("cpu", "cpu0", "CPUUtilization"),
    "cpu1.busy_pct": ("cpu", "cpu1", "CPUUtilization"),
    "cpu2.busy_pct": ("cpu", "cpu2", "CPUUtilization"),
    "host.cpu_busy_pct": ("cpu", "cpu3", "CPUUtilization"),
    "host.cpu_iowait_pct": ("cpu", "cpu0", "I/OWaitPercentage"),
    "host.memory_used_bytes": ("memory", "MemoryUsedPercent", ""),
    "disk.read_bytes_total": ("i/o", "ReadThroughputInBytesPerSecond", ""),
    "network.received_bytes_total": ("network", "ReceiveBytesPerSecond", "Algorithm"),
    "gpu0.busy_pct": ("gpu", "gpu0", "GPUUtilization"),
    "gpu0.memory_used_bytes": ("gpu", "gpu0", "GPUMemoryUtilization"),
}
"""Our name -> type, name and dimension of SageMaker's record for it."""

Numbers = NDArray[np.float64]


def fold() -> tuple[dict[str, Numbers], Numbers]:
    """Return each series' values once a second, and the duration of each step in seconds."""
    random = np.random.default_rng(5)
    ticks = np.arange(FOLD_SECONDS)
    work = (ticks >= WARM_UP_SECONDS) * np.clip(0.7 + random.normal(0, 0.1, FOLD_SECONDS), 0, 1)
    series: dict[str, Numbers] = {}
    for core in range(3):
        noise = random.normal(0, 8, FOLD_SECONDS)
        series[f"cpu{core}.busy_pct"] = np.round(np.clip(55 * work + 10 + noise, 0, 100))
    series["host.cpu_busy_pct"] = np.round(sum(series.values(), np.zeros(FOLD_SECONDS)) / 3, 2)
    series["host.cpu_iowait_pct"] = np.round(random.exponential(1.5, FOLD_SECONDS), 2)
    series["host.memory_used_bytes"] = 4096.0 * np.round(2e6 + 1e5 * work)
    for counter in ("disk.read_bytes_total", "network.received_bytes_total"):
        series[counter] = 4096.0 * random.integers(0, 5000, FOLD_SECONDS)
    series["gpu0.busy_pct"] = np.round(60 * work)
    series["gpu0.memory_used_bytes"] = np.round(9e9 * (work > 0))
    lengths = random.lognormal(0, 0.1, FOLD_STEPS)
    return series, lengths / lengths.sum() * (FOLD_SECONDS - WARM_UP_SECONDS)


def records(folds: int) -> int:
    return folds * (len(SERIES) * FOLD_SECONDS + FOLD_STEPS)


def store_trace(folder: Path, folds: int) -> NodeHistory:
    """Store it in our form, compacted like an ended run."""
    store = FolderStore(str(folder))
    end = START + timedelta(seconds=folds * FOLD_SECONDS)
    refs = []
    for segment in _segments(folds):
        key = f"hot/{segment.seq:09d}"
        store.put(key, encode_segment(segment))
        times = segment.start_ms, segment.duration_ms
        refs.append(SegmentRef(key, str(SESSION), segment.seq, START, *times))
    gpu = GpuHardware("Tesla V100-SXM2-16GB", 16 * 2**30)
    hardware = Hardware("p3.2xlarge", 4, 4.0, 16 * 2**30, (gpu,))
    hot = NodeHistory("node-1", hardware, ((START, end),), tuple(refs), ())
    hours = [START + timedelta(hours=n) for n in range(folds * FOLD_SECONDS // 3600 + 1)]
    chunks = tuple(ref for hour in hours for ref in compact(store, hot, hour, "run"))
    return NodeHistory("node-1", hardware, ((START, end),), (), chunks)


def _segments(folds: int) -> Iterator[Segment]:
    series, lengths = fold()
    tiled = {name: np.tile(values, folds) for name, values in series.items()}
    for name in tiled:
        tiled[name] = np.cumsum(tiled[name]) if name.endswith("_total") else tiled[name]
    starts = _step_starts(lengths, folds)
    durations = np.tile(lengths, folds)
    for seq in range(-(-folds * FOLD_SECONDS // SEGMENT_SECONDS)):
        low = seq * SEGMENT_SECONDS
        high = min(low + SEGMENT_SECONDS, folds * FOLD_SECONDS)
        inside = slice(*np.searchsorted(starts, [low, high]))
        yield _segment(
            seq,
            Block(
                [1000 * n for n in range(high - low)],
                {name: _plain(values[low:high]) for name, values in tiled.items()},
            ),
            _steps(starts[inside] - low, durations[inside]),
            [] if high < folds * FOLD_SECONDS else [_end(1000 * (high - low))],
        )


def _segment(seq: int, block: Block, steps: StepBlock, events: list[Event]) -> Segment:
    return Segment(
        run_id=UUID(int=2),
        job="bench",
        attempt=0,
        machine_id="m",
        clock=SessionClock(SESSION, "boot", 0, 0),
        seq=seq,
        start_ms=1000 * SEGMENT_SECONDS * seq,
        duration_ms=1000 * len(block.times_ms),
        resolution_ms=1000,
        blocks=[block],
        steps=[steps] if steps.start_us else [],
        events=events,
    )


def _steps(starts: Numbers, durations: Numbers) -> StepBlock:
    """Return the steps. Each waits a fifth of its time for data."""
    length_us = np.round(durations * 1e6).astype(int)
    count = len(starts)
    return StepBlock(
        rank=0,
        phase="train",
        start_us=np.round(starts * 1e6).astype(int).tolist(),
        duration_us=length_us.tolist(),
        data_wait_us=(length_us // 5).tolist(),
        samples=[64] * count,
    )


def _end(time_ms: int) -> Event:
    return Event(time_ms, "session_end", {"state": "finished", "exit_code": 0})


def _step_starts(lengths: Numbers, folds: int) -> Numbers:
    """Return seconds since the start. Each repetition begins to step after its warm-up."""
    within = WARM_UP_SECONDS + np.concatenate([[0.0], np.cumsum(lengths[:-1])])
    return np.concatenate([within + n * FOLD_SECONDS for n in range(folds)])


def _plain(values: Numbers) -> list[float | int | None]:
    return [int(v) if v == int(v) else float(v) for v in values]


def sagemaker(folder: Path, folds: int) -> None:
    """Write the same records as SageMaker's profiler stores them: a file per minute and kind."""
    series, lengths = fold()
    starts, durations = _step_starts(lengths, folds), np.tile(lengths, folds)
    for minute in range(-(-folds * FOLD_SECONDS // 60)):
        low, high = 60 * minute, min(60 * (minute + 1), folds * FOLD_SECONDS)
        at = START + timedelta(seconds=low)
        system = folder / "system" / "incremental" / f"{at:%Y%m%d%H}"
        system.mkdir(parents=True, exist_ok=True)
        name = f"{START_SECONDS + low}.algo-1.json"
        (system / name).write_text("".join(_system_lines(series, low, high)))
        inside = slice(*np.searchsorted(starts, [low, high]))
        if len(starts[inside]):
            _timeline(folder, at, starts[inside], durations[inside])
    (folder / "system" / "training_job_end.ts").write_text("")


def _system_lines(series: dict[str, Numbers], low: int, high: int) -> Iterator[str]:
    for second in range(low, high):
        for place, (name, (kind, theirs, dimension)) in enumerate(SERIES.items()):
            record = {
                "Type": kind,
                "Name": theirs,
                "Dimension": dimension,
                "Value": float(series[name][second % FOLD_SECONDS]),
                "NodeId": "algo-1",
                # Each collector has a clock reading of its own, within a millisecond.
                "Timestamp": START_SECONDS + second + place * 1e-4,
            }
            yield json.dumps(record) + "\n"


def _timeline(folder: Path, at: datetime, starts: Numbers, durations: Numbers) -> None:
    base_us = START_SECONDS * 1_000_000
    end_us = base_us + round(float(starts[-1] + durations[-1]) * 1e6)
    place = folder / "framework" / "pevents" / f"{at:%Y%m%d%H}"
    place.mkdir(parents=True, exist_ok=True)
    since = {"start_time_since_epoch_in_micros": base_us}
    phase = {"name": "Step:ModeKeys.TRAIN"}
    events: list[dict[str, object]] = [
        {"name": "process_name", "ph": "M", "pid": 0, "args": since},
        {"name": "process_name", "ph": "M", "pid": 1, "args": phase},
        {"name": "process_sort_index", "ph": "M", "pid": 1, "args": {"sort_index": 1}},
    ]
    for number, (start, duration) in enumerate(zip(starts, durations, strict=True)):
        events.append(
            {
                "name": phase["name"],
                "pid": 1,
                "ph": "X",
                "ts": round(float(start) * 1e6),
                "dur": round(float(duration) * 1e6),
                "args": {"pid": "7", "step_num": str(number)},
            }
        )
    (place / f"{end_us}_7-algo-1_pythontimeline.json").write_text(json.dumps(events))

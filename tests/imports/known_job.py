"""A job of 80 minutes in SageMaker's layout, of which every value is known.

Two nodes of four cores and four GPUs each, sampled twice a second, with all of today's series; two
processes a node, with training and evaluation steps. Each device has a distribution of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
START = 1_767_225_600
"""2026-01-01 00:00 UTC."""
TRAINING_JOB = "known-2026-01-01-00-00-00-000"
MINUTES, TICKS_A_MINUTE, WARM_UP_SECONDS = 80, 120, 240
TICKS, SECONDS = MINUTES * TICKS_A_MINUTE, 60 * MINUTES
NODES, CORES, GPUS, PROCESSES = ("algo-1", "algo-2"), 4, 4, 2
MIXED, UNUSED = ("algo-2", 0), ("algo-2", 1)
"""A GPU that is busy or idle in turn, and one that no process uses."""
BUSY = {
    **{("algo-1", gpu): (92.0 - 10 * gpu, 3.0 + 2 * gpu) for gpu in range(GPUS)},
    **{("algo-2", gpu): (90.0 - 4 * gpu, 5.0) for gpu in (2, 3)},
    MIXED: (96.0, 2.0),
}
"""Mean and deviation of each GPU that is used, in percent."""
OF_A_NODE = {
    ("memory", "MemoryUsedPercent", ""): (40.0, 8.0),
    ("i/o", "IOPS", ""): (900.0, 200.0),
    ("i/o", "ReadThroughputInBytesPerSecond", ""): (4e6, 1e6),
    ("i/o", "WriteThroughputInBytesPerSecond", ""): (1e5, 2e4),
    ("network", "ReceiveBytesPerSecond", "Algorithm"): (2e7, 4e6),
    ("network", "TransmitBytesPerSecond", "Algorithm"): (1e7, 2e6),
    ("network", "ReceiveBytesPerSecond", "Platform"): (3e3, 5e2),
    ("network", "TransmitBytesPerSecond", "Platform"): (2e4, 4e3),
}
"""Mean and deviation of the series of which a node has one."""
SeriesKey = tuple[str, str, str]


@dataclass
class KnownJob:
    """`series`: by node, then by type, name and dimension, a value for each tick. `steps`: by node,
    process and phase, starts since START and durations, in seconds."""

    folder: Path
    series: dict[str, dict[SeriesKey, Numbers]] = field(default_factory=dict)
    steps: dict[tuple[str, str, str], tuple[Numbers, Numbers]] = field(default_factory=dict)

    def gpu(self, node: str, number: int, dimension: str = "GPUUtilization") -> Numbers:
        return self.series[node]["gpu", f"gpu{number}", dimension]

    def core(self, node: str, number: int, dimension: str = "CPUUtilization") -> Numbers:
        return self.series[node]["cpu", f"cpu{number}", dimension]

    def host(self, node: str, dimension: str = "CPUUtilization") -> Numbers:
        """Return the mean of the cores."""
        cores = [self.core(node, number, dimension) for number in range(CORES)]
        return np.asarray(np.mean(cores, axis=0))

    @property
    def sample_count(self) -> int:
        return sum(len(values) for own in self.series.values() for values in own.values())

    @property
    def step_count(self) -> int:
        return sum(len(starts) for starts, _ in self.steps.values())


def known_job(folder: Path) -> KnownJob:
    """Write the job into a folder; the same each time."""
    job, random = KnownJob(folder / TRAINING_JOB), np.random.default_rng(20)
    output = job.folder / "profiler-output"
    for place, node in enumerate(NODES):
        job.series[node] = _series(node, place, random)
        for minute in range(MINUTES):
            _write_minute(output, node, job.series[node], minute, random)
        for number in range(PROCESSES):
            process = f"{20 + number}-{node}"
            own = _steps(0.45 + 0.03 * number + 0.05 * place, random)
            job.steps |= {(node, process, phase): steps for phase, steps in own.items()}
            _write_timelines(output, process, own)
    (output / "system" / "training_job_end.ts").touch()
    return job


def _series(node: str, place: int, random: np.random.Generator) -> dict[SeriesKey, Numbers]:
    series: dict[SeriesKey, Numbers] = {}
    works = np.arange(TICKS) >= WARM_UP_SECONDS * 2
    for gpu in range(GPUS):
        busy = np.zeros(TICKS)
        if (node, gpu) in BUSY:
            busy = works * np.clip(random.normal(*BUSY[node, gpu], TICKS), 0, 100)
        if (node, gpu) == MIXED:
            busy *= random.random(TICKS) > 0.2
        series["gpu", f"gpu{gpu}", "GPUUtilization"] = np.round(busy)
        series["gpu", f"gpu{gpu}", "GPUMemoryUtilization"] = np.round(0.4 * busy)
    for core in range(CORES):
        busy = np.clip(random.gamma(4, 5 + 3 * core + 2 * place, TICKS), 0, 100)
        series["cpu", f"cpu{core}", "CPUUtilization"] = np.round(busy, 2)
        waits = np.clip(random.exponential(1 + core, TICKS), 0, 100)
        series["cpu", f"cpu{core}", "I/OWaitPercentage"] = np.round(waits, 2)
    for key, (mean, deviation) in OF_A_NODE.items():
        series[key] = np.round(np.clip(random.normal(mean, deviation, TICKS), 0, None), 2)
    return series


def _write_minute(
    output: Path,
    node: str,
    series: dict[SeriesKey, Numbers],
    minute: int,
    random: np.random.Generator,
) -> None:
    """Write a minute, in which each collector has a clock reading of its own within a millisecond,
    and any order.
    """
    at = START + 60 * minute
    hour = f"20260101{minute // 60:02}"
    path = output / "system" / "incremental" / hour / f"{at}.{node}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    ticks = range(minute * TICKS_A_MINUTE, (minute + 1) * TICKS_A_MINUTE)
    keys, lines = list(series), []
    for tick in ticks:
        for place in random.permutation(len(keys)).tolist():
            kind, name, dimension = keys[place]
            record = {
                "Type": kind,
                "Name": name,
                "Dimension": dimension,
                "Value": float(series[keys[place]][tick]),
                "NodeId": node,
                "Timestamp": round(START + tick / 2 + 0.04 + place * 4e-5, 6),
            }
            lines.append(json.dumps(record) + "\n")
    path.write_text("".join(lines))


def _steps(mean_seconds: float, random: np.random.Generator) -> dict[str, tuple[Numbers, Numbers]]:
    """Return training steps with 20 ms between them; in the last 40 s of every ten minutes,
    evaluation.
    """
    found = {}
    for phase, first, last, mean in (("TRAIN", 0, 560, mean_seconds), ("EVAL", 560, 600, 0.2)):
        starts, durations = [], []
        for begin in range(0, SECONDS, 600):
            low = max(begin + first, WARM_UP_SECONDS)
            count = int((begin + last - low) / mean)
            lengths = mean * random.lognormal(0, 0.15, max(count, 0))
            at = low + np.concatenate([[0.0], np.cumsum(lengths + 0.02)[:-1]])[: len(lengths)]
            inside = at + lengths < begin + last
            starts.append(np.round(at[inside], 6))
            durations.append(np.round(lengths[inside], 6))
        found[phase] = np.concatenate(starts), np.concatenate(durations)
    return found


def _write_timelines(output: Path, process: str, steps: dict[str, tuple[Numbers, Numbers]]) -> None:
    """Write a file a minute, named after the end of its last event."""
    events = sorted(
        (start, length, phase)
        for phase, (starts, lengths) in steps.items()
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    )
    of_minute: dict[int, list[tuple[float, float, str]]] = {}
    for event in events:
        of_minute.setdefault(int(event[0] + event[1]) // 60, []).append(event)
    for own in of_minute.values():
        last = own[-1][0] + own[-1][1]
        folder = output / "framework" / "pevents" / f"20260101{int(last) // 3600:02}"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{START * 10**6 + round(last * 1e6)}_{process}_pythontimeline.json"
        (folder / name).write_text(json.dumps(_document(process, own)))


def _document(process: str, steps: list[tuple[float, float, str]]) -> list[dict[str, Any]]:
    base = {"start_time_since_epoch_in_micros": START * 10**6}
    pids = {"TRAIN": 1, "EVAL": 2}
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 0, "args": base},
        *(
            {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": f"Step:ModeKeys.{p}"}}
            for p, pid in pids.items()
        ),
    ]
    for number, (start, length, phase) in enumerate(steps):
        events.append(
            {
                "name": f"Step:ModeKeys.{phase}",
                "ph": "X",
                "pid": pids[phase],
                "ts": round(start * 1e6),
                "dur": round(length * 1e6),
                "args": {"pid": process.partition("-")[0], "step_num": str(number)},
            }
        )
    return events

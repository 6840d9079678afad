"""The memory of the run's processes grows without end and will reach the limit.

## What it checks
The resident memory of the run's processes on each node (`tree.rss_bytes`), from a settling time of
30 s after warm-up to the last step. If the loop reports epochs, from the second epoch on. It is cut
into twelve parts with equally many steps, or of equal length without steps: how much memory each
holds, how steadily the parts rise, and whether the second half rises as fast as the first. A leak
grows with the work, so steps that become slower, or a break, hide none.

## Why it costs money
When memory runs out, the kernel kills the training, and all work since the last checkpoint is
computed again. And a machine that is chosen by the memory that a leak happened to reach is wrong.

## When it fires
When the parts rise by at least `least_mib` and with a rank correlation with time of at least
`steadiness`, the second half rises at least `slowing` times as fast as the first, and at that rate
the memory that is left (of the cgroup's limit, else of the machine) is full within `horizon_hours`.
It needs `minimum_seconds` of samples after settling. While it fires, no other machine is
recommended.

In the first of several epochs it fires only if the memory will be full within 15 minutes: a dataset
that is kept in memory grows until the epoch ends.

## When it is wrong
A cache that fills at a constant rate looks like a leak until it is full. Growth that slows down,
single jumps, and mapped files, which the kernel can drop again, don't count. Growth without any
step while the processes read at least half as much as they grow is taken for loading. Memory that
several processes share counts once for each of them.

## How to fix it
Keep numbers of past steps, not tensors (`loss.item()`); bound caches and queues; store samples in
arrays rather than in lists of Python objects, which data-loader workers copy bit by bit. Until that
is found, save checkpoints more often than the memory fills.

## Parameters
`least_mib`, `steadiness`, `slowing`, `horizon_hours` and `minimum_seconds`, as above.

## Sources
All thresholds are ours: a leak of 10 MB/s must be found within three minutes, and a cache that
approaches its size with a time constant of up to seven minutes must not. Copies in workers:
PyTorch's issue 13246. SageMaker has no such rule.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.activity import work_began, working
from rules.category import SIZING
from rules.evidence import series_after
from rules.frame import NodeFrame, RunFrame
from rules.rule import Numbers, Parameter, Rule, Values, Verdict, Window
from rules.training_loop import events_of
from rules.wording import lasting, write_shortage

MIB, GIB = 2.0**20, 2.0**30
PARTS, FEWEST_PARTS, FEWEST_STEPS = 12, 8, 120
SETTLING_SECONDS = 30.0
URGENT_SECONDS = 900.0
JUMP_SHARE = 0.5
"""A rise whose typical part rises by less than half of the mean one is a jump or two (ours)."""
MAPPED_SHARE = 0.25
"""The share of the processes' rise below which a rise of the memory in use means that they map
files (ours)."""
LOADED_SHARE = 0.5
OTHERS = ("container.memory_working_set_bytes", "host.memory_used_bytes")
"""The series that the processes' memory is part of; they leave out files that the kernel can
drop."""

Floats = NDArray[np.float64]


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers: dict[str, float | None] = {"is_final": float(frame.final)}
    windows = []
    for node in frame.nodes.values():
        memory = _judged(node)
        if memory is None:
            continue
        measured = _node_numbers(node, memory, frame)
        numbers |= {f"{name}@{node.key}": value for name, value in measured.items()}
        windows.append(Window(float(memory.index[0]), float(memory.index[-1]), node.key))
    return Numbers(numbers, tuple(windows))


def judge(numbers: Numbers, values: Values) -> Verdict:
    seen, measured = numbers.by_entity("seen_seconds"), numbers.by_entity("rise_bytes")
    known = [node for node in measured if seen.get(node, 0.0) >= values["minimum_seconds"]]
    if not known:
        return Verdict("insufficient_data", _what_lacks(seen, values["minimum_seconds"]))
    leaks = [node for node in known if _grows(numbers, node, values)]
    left = numbers.by_entity("seconds_left")
    unlimited = [node for node in leaks if node not in left]
    if unlimited:
        return Verdict("insufficient_data", f"Missing: the memory limit of {unlimited[0]}.")
    soon = {node: left[node] for node in leaks if left[node] <= values["horizon_hours"] * 3600}
    if not soon and len(known) < len(numbers.entities("seen_seconds")):
        return Verdict("insufficient_data", _what_lacks(seen, values["minimum_seconds"]))
    if not soon:
        fastest = max(numbers.by_entity("bytes_per_second").values(), default=0.0)
        rate = f"; it grew by at most {fastest / MIB:.1f} MiB/s" if fastest > 0 else ""
        return Verdict("passed", f"No growth of memory without end{rate}.")
    worst = min(soon, key=lambda node: soon[node])
    if soon[worst] > URGENT_SECONDS and _of(numbers, "is_first_epoch", worst):
        return Verdict("insufficient_data", "Missing: the end of the first epoch.")
    return _fired(numbers, worst, soon[worst])


def _what_lacks(seen: dict[str, float], needed: float) -> str:
    if short := [seconds for seconds in seen.values() if seconds < needed]:
        known = write_shortage(min(short), needed, "of the processes' memory after settling")
        return f"Not enough data: {known}."
    return "Missing: the processes' memory in most parts of the time."


def _grows(numbers: Numbers, node: str, values: Values) -> bool:
    rise = _of(numbers, "rise_bytes", node)
    return (
        rise >= values["least_mib"] * MIB
        and _of(numbers, "steadiness", node) >= values["steadiness"]
        and _of(numbers, "second_half_ratio", node) >= values["slowing"]
        and _of(numbers, "typical_ratio", node) >= JUMP_SHARE
        and _of(numbers, "in_use_ratio", node, 1.0) >= MAPPED_SHARE
        and _of(numbers, "loaded_ratio", node) < LOADED_SHARE
    )


def _of(numbers: Numbers, name: str, node: str, otherwise: float = 0.0) -> float:
    return numbers.by_entity(name).get(node, otherwise)


def _fired(numbers: Numbers, node: str, left_seconds: float) -> Verdict:
    rate, rise = _of(numbers, "bytes_per_second", node), _of(numbers, "rise_bytes", node)
    over = _of(numbers, "judged_seconds", node)
    limit = _of(numbers, "limit_bytes", node)
    return Verdict(
        "fired",
        f"The processes on {node} grew by {rise / GIB:.1f} GiB in {lasting(over)} and still grow "
        f"by {rate / MIB:.1f} MiB/s; the limit of {limit / GIB:.1f} GiB is reached in "
        f"{lasting(left_seconds)}.",
        advice="Keep numbers of past steps and not tensors, bound caches, and save checkpoints "
        "until it is fixed. Choose no machine by this run's memory.",
        severity="high" if left_seconds < 3600 else "medium",
        dedupe_key="host_memory_leak",
    )


def _judged(node: NodeFrame) -> pd.Series[float] | None:
    """Return the processes' memory in the time that is judged; None if unknown, or before any GPU's
    work.
    """
    if node.allocated_gpus() and not work_began(node):
        return None
    memory = working(node, node.series("tree.rss_bytes"))
    settled = node.warm_up_end_seconds() + SETTLING_SECONDS
    return series_after(memory, max([settled, *_later_epochs(node)[:1]]))


def _later_epochs(node: NodeFrame) -> list[float]:
    """Return when each epoch but the first began, as far as the loop reports epochs."""
    epochs = [(at, data.get("number")) for at, data in events_of(node, "epoch")]
    return [at for at, number in epochs if number != epochs[0][1]]


def _node_numbers(
    node: NodeFrame, memory: pd.Series[float], frame: RunFrame
) -> dict[str, float | None]:
    seconds = len(memory) * frame.resolution_seconds
    measured: dict[str, float | None] = {"seen_seconds": seconds}
    worked = _progress(node, memory)
    times, means = _parts(memory.to_numpy().astype(np.float64), worked)
    length = float(worked[-1] - worked[0])
    late = times > worked[0] + length / 2
    if len(means) < FEWEST_PARTS or min(late.sum(), (~late).sum()) < FEWEST_PARTS // 4:
        return measured
    whole, first, second = (_slope(times[s], means[s]) for s in (late | ~late, ~late, late))
    rise = whole * length
    later_seconds = float(memory.index[-1] - memory.index[np.searchsorted(worked, times[late][0])])
    rate = second * float(worked[-1] - times[late][0]) / max(later_seconds, 1e-6)
    left = _left_bytes(node)
    return measured | {
        "judged_seconds": length,
        "rise_bytes": rise,
        "bytes_per_second": rate,
        "steadiness": _rank_correlation(means),
        "second_half_ratio": second / first if first > 0 else 10.0,
        "typical_ratio": _typical_slope(times, means) / whole if whole > 0 else 0.0,
        "in_use_ratio": _in_use_ratio(node, memory, rise),
        "loaded_ratio": _loaded_ratio(node, memory, rise, frame.resolution_seconds),
        "limit_bytes": float(node.hardware.memory_bytes) or None,
        "seconds_left": left / rate if left is not None and rate > 0 else None,
        "is_first_epoch": float(_is_first_epoch(node)),
    }


def _progress(node: NodeFrame, memory: pd.Series[float]) -> Floats:
    """Return how far the work is at each moment: the moments themselves, stretched so that each
    step takes equally long; without enough steps, as they are.
    """
    moments, steps = memory.index.to_numpy(dtype=float), node.training_steps
    ends = steps.start_seconds + steps.seconds
    order = np.argsort(ends)
    done = np.interp(moments, ends[order], np.cumsum(steps.count[order])) if len(ends) else moments
    if not done[-1] - done[0] >= FEWEST_STEPS:
        return moments
    stretch = (moments[-1] - moments[0]) / (done[-1] - done[0])
    return np.asarray(moments[0] + (done - done[0]) * stretch)


def _parts(values: Floats, worked: Floats) -> tuple[Floats, Floats]:
    """Return the middle and the median of each part that has a sample."""
    span = max(float(worked[-1] - worked[0]), 1e-6)
    number = np.minimum(((worked - worked[0]) / span * PARTS).astype(int), PARTS - 1)
    medians = pd.Series(values).groupby(number).median()
    middles = worked[0] + (medians.index.to_numpy(dtype=float) + 0.5) * span / PARTS
    return middles, medians.to_numpy(dtype=float)


def _slope(times: Floats, values: Floats) -> float:
    """Return the slope by least squares, per second."""
    return float(np.polyfit(times - times.mean(), values, 1)[0])


def _typical_slope(times: Floats, means: Floats) -> float:
    """Return the median rise from part to part, per second."""
    return float(np.median(np.diff(means) / np.diff(times)))


def _rank_correlation(means: Floats) -> float:
    """Return Spearman's rank correlation of the parts with their order; 0 if all are equal."""
    ranks = pd.Series(means).rank().to_numpy()
    if np.ptp(ranks) == 0:
        return 0.0
    return float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1])


def _left_bytes(node: NodeFrame) -> float | None:
    """Return the memory that the run can still take; None if the limit is unknown."""
    limit = float(node.hardware.memory_bytes)
    if not limit:
        return None
    last = (_last(node, name) for name in (*OTHERS, "tree.rss_bytes"))
    used = [each for each in last if each is not None and each < limit]
    return limit - max(used, default=limit)


def _last(node: NodeFrame, name: str) -> float | None:
    series = node.series(name)
    return float(series.iloc[-1]) if series is not None else None


def _in_use_ratio(node: NodeFrame, memory: pd.Series[float], rise: float) -> float | None:
    """Return the rise of the memory in use over that of the processes; None if unknown."""
    for name in OTHERS:
        known = node.series(name)
        within = series_after(known, float(memory.index[0]))
        if within is not None and rise > 0 and len(within) > PARTS:
            within = within[within.index <= memory.index[-1]]
            times = within.index.to_numpy(dtype=float)
            slope = _slope(times, within.to_numpy(dtype=float))
            return slope * float(memory.index[-1] - memory.index[0]) / rise
    return None


def _loaded_ratio(
    node: NodeFrame, memory: pd.Series[float], rise: float, resolution_seconds: float
) -> float | None:
    """Return the bytes that the processes read over the rise, in a run that has made no step
    yet.
    """
    rate = node.rate("tree.requested_bytes_total", resolution_seconds)
    if len(node.steps) or rate is None or rise <= 0:
        return None
    judged = rate[(rate.index >= memory.index[0]) & (rate.index <= memory.index[-1])]
    return float(judged.mean()) * float(memory.index[-1] - memory.index[0]) / rise


def _is_first_epoch(node: NodeFrame) -> bool:
    return bool(events_of(node, "epoch")) and not _later_epochs(node)


RULE = Rule(
    id="host_memory_leak",
    title="Host memory keeps growing",
    category=SIZING,
    version=2,
    needs=("tree.rss_bytes",),
    parameters=(
        Parameter("least_mib", "MiB", 256, 1, 1e6, "Least rise", "ours"),
        Parameter("steadiness", "of 1", 0.9, 0, 1, "Least rank correlation with time", "ours"),
        Parameter(
            "slowing", "of 1", 0.85, 0, 1, "Least rise of the second half over the first", "ours"
        ),
        Parameter("horizon_hours", "h", 24, 0.1, 1000, "Full within", "ours, a day"),
        Parameter("minimum_seconds", "s", 120, 60, 86_400, "Least time after settling", "ours"),
    ),
    measure=measure,
    judge=judge,
)

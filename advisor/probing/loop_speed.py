"""The speed of a run's training loop, and what it ran on, from its frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.pricing.gpus import gpu_model
from advisor.probing.bootstrap import Rate, rate
from advisor.probing.warm_up import warmup_steps
from rules.frame import NodeFrame, RunFrame
from rules.processes import memory_bytes
from rules.training_loop import events_of, in_order, weighted_median

VERSION = 2
"""The version of the measurement. Runs of an earlier one are measured again."""
LEAST_STEPS = 10
MOST_WARMUP_STEPS = 200
WAITS_FOR_LOADER = 0.15
"""The share of the step time from which the loader sets the pace (the rule `input_bound`)."""
SAMPLES, STEPS = "samples", "steps"
LOADER, GPU, CPU, UNKNOWN = "loader", "gpu", "cpu", "unknown"
DEVICE_BUSY = "device busy"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ProbePlan:
    """The steps that a probe was asked to measure."""

    steps: int
    warmup_steps: int | None = None
    """The steps to leave out; None for as many as the loop needs to reach its level."""
    gpus: int | None = None
    """The number of GPUs that the command was limited to; None if it wasn't."""


@dataclass(frozen=True)
class LoopSpeed:
    """One measured training loop. None: not known."""

    rate: Rate
    """Work per second of all processes together."""
    unit: str
    """SAMPLES, or STEPS where the samples aren't known."""
    steps: int
    warmup_steps: int
    batch: float | None
    """Samples a step of all processes together."""
    precision: str
    """`fp32`, `fp32/tf32`, `fp16`, `bf16` or `mixed`; empty: not known."""
    gpu: str
    """The GPU's key in the GPU table; empty if no GPU was seen, or not one model alone."""
    gpus: int
    """The number of GPUs that were used; if their use isn't known, that were allocated."""
    util_pct: float | None
    """Mean over the GPUs used, while the steps were measured."""
    gpu_memory_bytes: int | None
    """The peak of one GPU."""
    host_memory_bytes: int | None
    """The peak of one node."""
    data_wait_share: float | None
    pace: str
    """The limit that set the pace: LOADER, GPU, CPU or UNKNOWN."""
    step_variation: float | None = None
    """Coefficient of variation of the steps' times; None: most steps were only summed."""


@dataclass(frozen=True)
class _Loop:
    """The steps of the leading rank; a row is a step, or a second with its mean step."""

    start: Floats
    seconds: Floats
    wait: Floats
    count: Floats

    @property
    def time(self) -> Floats:
        return self.seconds * self.count

    def part(self, chosen: NDArray[np.bool_]) -> _Loop:
        return _Loop(
            self.start[chosen], self.seconds[chosen], self.wait[chosen], self.count[chosen]
        )


def loop_speed(frame: RunFrame, plan: ProbePlan | None = None) -> LoopSpeed | None:
    """Return the speed of a run's loop after warm-up, or None if there are too few training steps.

    Args:
        plan: what a probe was to measure. Later steps are left out: the training was being stopped.
    """
    loop = _leading(frame)
    if loop is None:
        return None
    warmup = _warmup(frame, loop, plan)
    measured = loop.part(_is_measured(loop, warmup, plan))
    count = int(measured.count.sum())
    if count < LEAST_STEPS:
        return None
    begin, end = float(measured.start[0]), float(measured.start[-1] + measured.time[-1])
    batch, samples = _samples(frame, begin, end)
    steps = rate(measured.count, measured.time)
    used = [(node, _used_gpus(node)) for node in frame.nodes.values()]
    wait_share, util_pct = _wait_share(measured), _util_pct(used, begin, end)
    gpu = _gpu_key(used)
    return LoopSpeed(
        rate=steps if samples is None else steps.times(samples),
        unit=STEPS if samples is None else SAMPLES,
        steps=count,
        warmup_steps=warmup,
        batch=batch,
        precision=_precision(frame.nodes.values()),
        gpu=gpu,
        gpus=sum(len(numbers) for _, numbers in used),
        util_pct=util_pct,
        gpu_memory_bytes=_gpu_memory(used),
        host_memory_bytes=_host_memory(frame),
        data_wait_share=wait_share,
        pace=_pace(wait_share, util_pct, has_gpu=any(numbers for _, numbers in used)),
        step_variation=_variation(measured),
    )


def _is_training(node: NodeFrame) -> NDArray[np.bool_]:
    return node.is_phase("train") & node.is_timed


def _leading(frame: RunFrame) -> _Loop | None:
    """Return the loop of the lowest rank, on the node on which it began first; None without
    steps.
    """
    nodes = [node for node in frame.nodes.values() if node.once(_is_training).any()]
    ranks = [node.step_ranks[node.once(_is_training)] for node in nodes]
    if not nodes:
        return None
    lowest = min(own.min() for own in ranks)
    pairs = zip(nodes, ranks, strict=True)
    loops = (_loop(node, lowest) for node, own in pairs if lowest in own)
    return min(loops, key=lambda loop: loop.start[0])


def _loop(node: NodeFrame, rank: int) -> _Loop:
    chosen = node.once(_is_training) & (node.step_ranks == rank)
    names = ("start_seconds", "duration_seconds", "data_wait_seconds", "count")
    start, seconds, wait, count = in_order(*(node.step_column(name)[chosen] for name in names))
    return _Loop(start, seconds, wait, np.nan_to_num(count, copy=False, nan=1.0))


def _warmup(frame: RunFrame, loop: _Loop, plan: ProbePlan | None) -> int:
    """Return the number of warm-up steps, as the agent counted it if it did."""
    if plan and plan.warmup_steps is not None:
        return plan.warmup_steps
    ends = (data for node in frame.nodes.values() for _, data in events_of(node, "session_end"))
    told = [data["warmup_steps"] for data in ends if isinstance(data.get("warmup_steps"), int)]
    if plan and told and 0 <= told[0] <= plan.steps:
        return int(told[0])
    most = plan.steps if plan else min(MOST_WARMUP_STEPS, int(loop.count.sum()) // 2)
    rows = int(np.searchsorted(np.cumsum(loop.count), 2 * most + LEAST_STEPS)) + 1
    return warmup_steps(np.repeat(loop.seconds[:rows], loop.count[:rows].astype(int)), most)


def _is_measured(loop: _Loop, warmup: int, plan: ProbePlan | None) -> NDArray[np.bool_]:
    """Return which rows lie after the warm-up as a whole."""
    before = np.cumsum(loop.count) - loop.count
    after_warmup = before >= warmup
    return after_warmup & (before < warmup + plan.steps) if plan else after_warmup


def _samples(frame: RunFrame, begin: float, end: float) -> tuple[float | None, float | None]:
    """Return the usual batch of all processes, and the mean samples of a step; None if not
    counted.
    """
    batch = samples = 0.0
    for node in frame.nodes.values():
        for count, done in _counted(node, begin, end):
            if np.isnan(done).any():
                return None, None
            batch += weighted_median(done / count, count)
            samples += float(done.sum() / count.sum())
    return (batch, samples) if samples > 0 else (None, None)


def _counted(node: NodeFrame, begin: float, end: float) -> Iterator[tuple[Floats, Floats]]:
    """Yield the number of steps and of samples, for each rank's steps that began in this time."""
    at, ranks = node.step_column("start_seconds"), node.step_ranks
    inside = node.once(_is_training) & (at >= begin) & (at < end)
    for rank in np.unique(ranks[inside]):
        own = inside & (ranks == rank)
        names = ("start_seconds", "count", "samples")
        _, count, done = in_order(*(node.step_column(name)[own] for name in names))
        yield np.nan_to_num(count, copy=False, nan=1.0), done


def _wait_share(loop: _Loop) -> float | None:
    known = ~np.isnan(loop.wait)
    if loop.time[known].sum() < loop.time.sum() / 2:
        return None
    waited = float((loop.wait * loop.count)[known].sum())
    return min(1.0, waited / float(loop.time[known].sum()))


def _variation(loop: _Loop) -> float | None:
    """Return the relative spread of the steps that were kept one by one, if they are most."""
    single = loop.seconds[loop.count == 1]
    if len(single) < max(LEAST_STEPS, loop.count.sum() / 2):
        return None
    return float(single.std() / single.mean())


def _pace(wait_share: float | None, util_pct: float | None, *, has_gpu: bool) -> str:
    """Return what set the pace. A busy GPU doesn't wait for data, whether the wait was measured or
    not.
    """
    if wait_share is None:
        return GPU if (util_pct or 0.0) > 100 * (1 - WAITS_FOR_LOADER) else UNKNOWN
    if wait_share >= WAITS_FOR_LOADER:
        return LOADER
    return GPU if has_gpu else CPU


_Used = list[tuple[NodeFrame, list[int]]]


def _used_gpus(node: NodeFrame) -> list[int]:
    return list(node.used_gpus) or node.allocated_gpus()


def _gpu_key(used: _Used) -> str:
    keys = {_key(node, number) for node, numbers in used for number in numbers}
    return keys.pop() if len(keys) == 1 else ""


def _key(node: NodeFrame, number: int) -> str:
    if number >= len(node.hardware.gpus):
        return ""
    seen = node.hardware.gpus[number]
    model = gpu_model(seen.model, seen.memory_bytes)
    return model.key if model else ""


def _util_pct(used: _Used, begin: float, end: float) -> float | None:
    parts = []
    for node, numbers in used:
        for number in numbers:
            busy = node.gpu_busy_pct(number)
            if busy is not None:
                low, high = busy.index.searchsorted([begin, end])
                parts.append(busy.to_numpy()[low:high])
    known = np.concatenate(parts) if parts else np.zeros(0)
    return float(known.mean()) if len(known) else None


def _gpu_memory(used: _Used) -> int | None:
    """Return the memory by the processes' own use, else as torch reserved it, else all that was in
    use.
    """
    for peaks in (
        _series_peaks(used, "tree_memory_used_bytes"),
        _reserved_peaks(used),
        _series_peaks(used, "memory_used_bytes"),
    ):
        if peaks:
            return round(max(peaks))
    return None


def _series_peaks(used: _Used, name: str) -> list[float]:
    each = (node.series(f"gpu{number}.{name}") for node, numbers in used for number in numbers)
    return [float(series.max()) for series in each if series is not None]


def _reserved_peaks(used: _Used) -> list[float]:
    events = (data for node, _ in used for _, data in events_of(node, "gpu_memory"))
    return [float(d["peak_reserved_bytes"]) for d in events if d.get("peak_reserved_bytes")]


def _host_memory(frame: RunFrame) -> int | None:
    each = (memory_bytes(node, frame.resolution_seconds) for node in frame.nodes.values())
    peaks = [float(known.max()) for known in each if known is not None and len(known)]
    return round(max(peaks)) if peaks else None


def _precision(nodes: Iterable[NodeFrame]) -> str:
    """Return the precision that was recorded last."""
    told: list[tuple[float, dict[str, Any]]] = []
    for node in nodes:
        told += events_of(node, "precision")
    if not told:
        return ""
    last = max(told, key=lambda event: event[0])[1]
    if last.get("amp") in ("float16", "bfloat16"):
        return "mixed"
    halves = {"float16": "fp16", "bfloat16": "bf16"}
    if last.get("parameters") in halves:
        return halves[last["parameters"]]
    if last.get("parameters") != "float32":
        return ""
    return "fp32/tf32" if last.get("tf32") or last.get("cudnn_tf32") else "fp32"

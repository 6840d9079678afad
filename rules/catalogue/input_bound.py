"""The training loop spends much of its step time waiting for the next batch.

## What it checks
The share of training-step time in which the loop waited for its next batch, over all ranks, as
measured by `trimtab.wrap(loader)` or the training hook. The first step of each rank is warm-up and
is left out. Evaluation and checkpoint steps don't count. Time in which the ranks were ready to work
and waited for a core is taken out of both, so that other programs on the machine neither hide a
wait nor make one.

## Why it costs money
While the loop waits, the whole machine is paid for and the model learns nothing. In a study of 400
real jobs with low utilisation, 46 % of the 706 issues were data operations, and 85 % of all issues
were fixed by small changes to code or scripts.

## When it fires
From `fire_share_pct` of the step time and `least_seconds` of waiting, once there are
`minimum_steps` and `minimum_seconds` of steps. From `notice_share_pct` the rule passes with a
remark; from `high_share_pct` the severity is high. The windows of evidence are the parts of the run
with at least 5 % of waiting.

## When it is wrong
A GPU may still have queued work while the loop waits; then the wait costs less than its duration.
The GPU utilisation during the training steps is therefore shown as counter-evidence, and the waste
is never more than the waits in which the used GPUs were idle within the same 5 s, as in the ledger.
If the run keeps every core busy, more loader workers won't help: the work itself must become
cheaper. In a
loop that is wrapped twice, the wait counts twice.

## How to fix it
Prepare batches ahead of time in parallel workers (`num_workers`, `prefetch_factor`,
`persistent_workers`); vectorise the transformation; prepare the data once and store the result;
decode on the GPU; read few large files rather than many small ones.

## Parameters
`notice_share_pct`, `fire_share_pct` and `high_share_pct` set the three levels; `minimum_steps` and
`minimum_seconds` are the least evidence needed to judge, `least_seconds` the least wait;
`measured_share_pct` is the share of step time whose wait must be measured.

## Sources
Levels: TensorFlow's input-pipeline analyser (5 % and 20 %), the PyTorch profiler's TensorBoard
plugin (5 %), gpuprof (15 % and 30 %). Issues: Gao et al., ICSE 2024. That a fix gives back 0.6 to
0.9 of the wait, and the minimum evidence, are our estimates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from rules.activity import cores, own_cores
from rules.category import DATA
from rules.evidence import clamp_seconds, percentile, series_after
from rules.frame import NodeFrame, RunFrame
from rules.intervals import merge_windows
from rules.processes import are_cores_own
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.stalls import wasted_wait_seconds
from rules.step_time import step_time
from rules.told_evidence import LEAST_SECONDS
from rules.training_loop import share_pct, training_loaders
from rules.wording import lasting, write_count, write_shortage

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.6, 0.9
WINDOW_SECONDS = 10.0
WINDOW_SHARE = 0.05
SLACK_SECONDS = 1.0
"""Stretches that are no further apart are one."""
CORES_FULL_PCT = 90.0
WORTH_SAYING = 0.01
"""The share of step time from which on starvation is part of the sentence."""

LABELS = ("data_stall",)


def measure(frame: RunFrame, values: Values) -> Numbers:
    step = step_time(frame)
    ranks = max(step.ranks, 1)
    numbers = {
        "wait_share_pct": step.own_share_pct,
        "measured_share_pct": share_pct(step.measured_seconds, step.seconds),
        "wait_seconds": clamp_seconds(step.own_wait_seconds / ranks, frame.duration_seconds),
        "step_seconds": step.seconds / ranks,
        "starved_seconds": step.starved_seconds / ranks,
        "steps_count": step.steps / ranks,
        "wasted_wait_seconds": wasted_wait_seconds(frame),
        "run_seconds": frame.duration_seconds,
        "gpu_busy_pct": _mean_gpu_busy(frame),
        "cpu_busy_p50_pct": _cpu_busy(frame),
        "loader_workers": _loader_workers(frame),
        "cores_per_rank": _cores_per_rank(frame),
    }
    windows = (window for node in frame.nodes.values() for window in _windows(node))
    return Numbers(numbers, merge_windows(windows, SLACK_SECONDS))


def judge(numbers: Numbers, values: Values) -> Verdict:
    share, measured = numbers.get("wait_share_pct"), numbers.get("measured_share_pct")
    if share is None or measured is None or measured < values["measured_share_pct"]:
        return Verdict("insufficient_data", _what_to_measure(numbers, values))
    steps, seconds = numbers.get("steps_count") or 0.0, numbers.get("step_seconds")
    if steps < values["minimum_steps"]:
        seen = f"{write_count(math.floor(steps), 'step')} of a rank after its first"
        short = f"{seen}, {values['minimum_steps']:g} needed"
        return Verdict("insufficient_data", f"Not enough data: {short}.")
    if seconds is None:
        return Verdict("insufficient_data", "Missing: the time of the training steps.")
    if seconds < values["minimum_seconds"]:
        short = write_shortage(seconds, values["minimum_seconds"], "of steps after the first")
        return Verdict("insufficient_data", f"Not enough data: {short}.")
    summary = _summary(share, seconds, numbers.get("starved_seconds") or 0.0)
    waited = numbers.get("wait_seconds")
    if waited is None:
        return Verdict("insufficient_data", "Missing: the time of the waits for data.")
    if share < values["fire_share_pct"] or waited < values["least_seconds"]:
        remark = " Worth a look." if share >= values["notice_share_pct"] else ""
        return Verdict("passed", summary + remark)
    return Verdict(
        "fired",
        summary + _counter_evidence(numbers),
        advice=_advice(numbers),
        claims=(_claim(numbers),),
        severity="high" if share >= values["high_share_pct"] else "medium",
        dedupe_key="input_bound",
    )


def _summary(share_pct: float, step_seconds: float, starved_seconds: float) -> str:
    own = lasting(max(step_seconds - starved_seconds, 0.0))
    waited = f"The loop waited for data for {share_pct:.1f} % of {own} of training steps"
    if starved_seconds < WORTH_SAYING * step_seconds:
        return f"{waited}."
    return f"{waited}, without {lasting(starved_seconds)} in which it waited for a core."


def _windows(node: NodeFrame) -> Iterator[Window]:
    """Yield the stretches in which measured waits took `WINDOW_SHARE` of the step time."""
    steps = node.training_steps
    start, time, wait = steps.start_seconds, steps.seconds, steps.wait_seconds
    measured = ~np.isnan(wait)
    # Most of a long run's memory is its steps: they aren't copied if all waits were measured.
    if not measured.all():
        start, time, wait = (column[measured] for column in (start, time, wait))
    if not len(start):
        return
    cells = ((start - start.min()) // WINDOW_SECONDS).astype(np.int64)
    count = int(cells.max()) + 1
    begins, ends = np.full(count, np.inf), np.zeros(count)
    np.minimum.at(begins, cells, start)
    np.maximum.at(ends, cells, start + time)
    waits, whole = np.bincount(cells, wait), np.bincount(cells, time)
    high = (whole > 0) & (waits >= WINDOW_SHARE * whole)
    # Joined here already: a long run has ten thousand of them.
    begins, ends = begins[high], np.maximum.accumulate(ends[high])
    firsts = np.flatnonzero(begins > np.append(-np.inf, ends[:-1]) + SLACK_SECONDS)
    lasts = np.append(firsts[1:], len(begins))[: len(firsts)] - 1
    for begin, end in zip(begins[firsts].tolist(), ends[lasts].tolist(), strict=True):
        yield Window(begin, end, node.key)


def _mean_gpu_busy(frame: RunFrame) -> float | None:
    """Return the mean use of all allocated GPUs while there were training steps; None if
    unknown.
    """
    means = []
    for node in frame.nodes.values():
        end = _last_step_end(node)
        for number in node.allocated_gpus():
            busy = series_after(node.gpu_busy_pct(number), node.warm_up_end_seconds())
            if busy is not None and (count := int(busy.index.searchsorted(end, side="right"))):
                means.append(float(busy.to_numpy()[:count].mean()))
    return float(np.mean(means)) if means else None


def _last_step_end(node: NodeFrame) -> float:
    columns = ("start_seconds", "duration_seconds", "count")
    start, length, count = (node.step_column(name)[node.is_phase("train")] for name in columns)
    return float(np.fmax.reduce(start + length * count, initial=-np.inf))


def _cpu_busy(frame: RunFrame) -> float | None:
    """Return the median share of its cores that the run itself used after warm-up, of the node on
    which it is highest.
    """
    medians = []
    for node in frame.nodes.values():
        own = series_after(own_cores(node, frame.resolution_seconds), node.warm_up_end_seconds())
        held = (node.hardware.effective_cpus if are_cores_own(node) else 0.0) or cores(node)
        used = percentile(own, 50)
        if used is not None and held > 0:
            medians.append(100 * used / held)
    return max(medians, default=None)


def _loader_workers(frame: RunFrame) -> float | None:
    """Return the loader processes as the training loop declared them; the most of any node."""
    loaders = [data for node in frame.nodes.values() for data in training_loaders(node)]
    workers = [data.get("workers") for data in loaders]
    return max((float(n) for n in workers if isinstance(n, int | float)), default=None)


def _cores_per_rank(frame: RunFrame) -> float | None:
    """Return the fewest cores a rank of any node; None if unknown."""
    shares = [
        (node.hardware.effective_cpus or cores(node)) / node.training_ranks
        for node in frame.nodes.values()
        if node.training_ranks
    ]
    return min(shares, default=0.0) or None


def _what_to_measure(numbers: Numbers, values: Values) -> str:
    if not (numbers.get("steps_count") or 0.0):
        return "No training steps were recorded: call trimtab.wrap(loader) and trimtab.step()."
    measured = numbers.get("measured_share_pct")
    if not measured:
        return "The wait for data was not measured: call trimtab.wrap(loader)."
    if measured >= values["measured_share_pct"]:
        return "Missing: the share of the wait for data."
    seen = f"{math.floor(10 * measured) / 10:.1f} %"
    return (
        f"The wait for data was measured for {seen} of the step time, "
        f"{values['measured_share_pct']:g} % needed: call trimtab.wrap(loader)."
    )


def _claim(numbers: Numbers) -> Claim:
    """Return the claim on the wait, as far as GPUs idled meanwhile. A fix gives back a part of the
    whole wait.
    """
    longest = numbers.get("run_seconds") or 0.0
    wait = clamp_seconds(numbers.get("wait_seconds") or 0.0, longest)
    busy, steps = numbers.get("gpu_busy_pct"), numbers.get("step_seconds") or 0.0
    steps = max(steps - (numbers.get("starved_seconds") or 0.0), 0.0)
    idle = wait if busy is None else clamp_seconds((1 - busy / 100) * steps, longest)
    wasted = numbers.get("wasted_wait_seconds")
    most = idle if wasted is None else clamp_seconds(wasted, idle)
    most = min(most, wait)
    if most <= 0:
        return Claim(LABELS, 0.0, 0.0, 0.0)
    low, high = (min(share * wait / most, 1.0) for share in (RECOVERABLE_LOW, RECOVERABLE_HIGH))
    return Claim(LABELS, most, low, high)


def _counter_evidence(numbers: Numbers) -> str:
    busy = numbers.get("gpu_busy_pct")
    if busy is None:
        return ""
    return f" During these steps the GPUs were busy for {busy:.0f} % of the time."


def _advice(numbers: Numbers) -> str:
    cpu, workers = numbers.get("cpu_busy_p50_pct"), numbers.get("loader_workers")
    if cpu is not None and cpu >= CORES_FULL_PCT:
        return (
            f"The run keeps its cores busy (CPU {cpu:.0f} %), so make data preparation itself "
            "cheaper: vectorise it, store its result, or move the work to the GPU."
        )
    per_rank = numbers.get("cores_per_rank")
    each = max(math.floor(per_rank), 1) if per_rank else 0
    now = "" if workers is None else f" (now {write_count(workers, 'loader worker')})"
    if workers is not None and 0 < each <= workers:
        return (
            f"There are already {write_count(workers, 'loader worker')} for "
            f"{write_count(each, 'core')} a rank, so make data preparation itself cheaper: "
            "vectorise it, store its result, or read few large files."
        )
    wanted = f"={each}, the cores of a rank" if each else ""
    return (
        f"Prepare batches in parallel workers: num_workers{wanted}{now}, persistent_workers=True. "
        "Vectorise the transformation, or store its result."
    )


RULE = Rule(
    id="input_bound",
    title="Training waits for data",
    category=DATA,
    version=8,
    needs=("steps.data_wait",),
    claims_on=LABELS,
    directness=Directness.TOLD_CAUSE,
    parameters=(
        Parameter(
            "notice_share_pct", "%", 5, 0, 100, "Adds a remark from this share", "TensorFlow, 5 %"
        ),
        Parameter(
            "fire_share_pct",
            "%",
            15,
            0,
            100,
            "Fires from this share",
            "gpuprof, 15 %",
            save=10,
            safe=25,
        ),
        Parameter(
            "high_share_pct", "%", 30, 0, 100, "High severity from this share", "gpuprof, 30 %"
        ),
        Parameter("minimum_steps", "steps", 3, 1, 1e6, "Least steps per rank to judge", "ours"),
        Parameter("minimum_seconds", "s", 5, 1, 86_400, "Least step time to judge", "ours"),
        Parameter(
            "measured_share_pct",
            "%",
            50,
            0,
            100,
            "Least share of step time with a measured wait",
            "ours",
        ),
        LEAST_SECONDS,
    ),
    measure=measure,
    judge=judge,
)

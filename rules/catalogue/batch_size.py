"""The batch is too small: CPU cores, GPU and GPU memory all have room.

## What it checks
For each used GPU: the 95th percentile of the node's CPU utilisation, of the GPU's utilisation and
of its used memory (as a share of its size). The time after warm-up is cut into windows of
`window_seconds`; the median over the windows counts.

## Why it costs money
A small batch leaves most of the GPU idle. Each step pays its fixed costs (kernel launches,
synchronisation, logging) for few samples.

## When it fires
When all three percentiles of at least one GPU are below `cpu_threshold_p95`, `gpu_threshold_p95`
and `gpu_memory_threshold_p95`. It needs `patience_seconds` of known samples after warm-up, or
`patience_share_pct` of a short run, and never less than 20 s. It passes only if that is known of
every used GPU.

A first step of 10 s and more is warm-up, because it compiles. A running run that has reported no
other step may still be starting up: it needs the whole `patience_seconds`.

## When it is wrong
Frameworks that reserve all memory at once (TensorFlow, JAX) look full whatever the batch size. A
loop that waits for data looks the same; if the wait is measured and large, the finding says so, and
the lower end of the waste is 0. A larger batch may change what the model learns.

## How to fix it
Raise the batch size until about 90 % of the memory is used, and the learning rate with it. If the
batch size must stay, use a smaller GPU.

## Parameters
The three thresholds as in SageMaker. `window_seconds` and `patience_seconds` are SageMaker's
`window` and `patience` at two samples a second; `patience_share_pct` lets short runs be judged.

## Sources
SageMaker Debugger's BatchSize: cpu_threshold_p95, gpu_threshold_p95, gpu_memory_threshold_p95 all
70, window 500, patience 1000. Differences: memory is the memory in use, where SageMaker takes the
activity of the memory controller; without memory data the rule reports missing data and doesn't
fail; a GPU that was never used is left to `unused_gpus`; each window counts once, where SageMaker
counts the last window again at each scan; warm-up is really left out. What a larger batch gives
back (1.1 to 1.8 times the throughput, never more than the idle time) is our estimate.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import pandas as pd

from rules.activity import cpu_pct
from rules.bottleneck import patience_parameters
from rules.category import GPU
from rules.evidence import clamp_seconds, known_part
from rules.frame import NodeFrame, RunFrame
from rules.gpus import gpu_counts, idle_seconds, unfit
from rules.intervals import merge_windows
from rules.ledger_labels import IDLE_GPUS
from rules.parameter import SAGEMAKER_SAMPLE_SECONDS
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.sagemaker_statistics import gpu_memory_table
from rules.step_time import step_time
from rules.windows import gpu_windows, needed_seconds, series_while_working, window_percentiles
from rules.wording import name_gpus, range_pct, sentence, some_gpus, write_shortage

GAIN_LOW, GAIN_HIGH = 1.1, 1.8
TARGET_MEMORY_PCT, MOST_TIMES = 90.0, 8.0
WAITS_PCT = 15.0
"""The share of waits from which on `input_bound` fires, and the batch may not be the cause."""


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers: dict[str, float | None] = gpu_counts(frame) | {
        "run_seconds": frame.duration_seconds,
        "wait_share_pct": step_time(frame).wait_share_pct,
    }
    windows: list[Window] = []
    for node in frame.nodes.values():
        numbers[f"cpu_p95_pct@{node.key}"] = _cpu_p95(node, frame, values)
        memory = gpu_memory_table(node)
        for number in node.used_gpus:
            measured, work = _gpu_numbers(node, number, memory, frame, values)
            numbers |= {f"{name}@{node.key}/gpu{number}": value for name, value in measured.items()}
            windows += [work] if work else []
    return Numbers(numbers, merge_windows(windows))


def judge(numbers: Numbers, values: Values) -> Verdict:
    if reason := unfit(numbers):
        return reason
    run_seconds = numbers.get("run_seconds") or 0.0
    needed = needed_seconds(values, numbers)
    judged = _judged(numbers, needed)
    if not judged:
        return Verdict("insufficient_data", _what_lacks(numbers, (), needed))
    bad = [gpu for gpu, percentiles in judged.items() if _is_small(percentiles, values)]
    if bad:
        return _fired(numbers, judged, bad, run_seconds)
    if len(judged) < (numbers.get("used_gpus_count") or 0.0):
        return Verdict("insufficient_data", _what_lacks(numbers, judged.keys(), needed))
    return Verdict("passed", _is_large(judged, values))


def _is_large(judged: dict[str, tuple[float, float, float]], values: Values) -> str:
    cpu, gpu, memory = (range_pct(each) for each in zip(*judged.values(), strict=True))
    limits = ("gpu_threshold_p95", "gpu_memory_threshold_p95", "cpu_threshold_p95")
    of_gpu, of_memory, of_cpu = (f"{values[name]:g} %" for name in limits)
    return (
        f"No sign of too small a batch: p95 of GPU utilisation {gpu}, of GPU memory {memory}, of "
        f"CPU {cpu}. All three of a GPU would have to be below {of_gpu}, {of_memory} and {of_cpu}."
    )


def _fired(
    numbers: Numbers, judged: dict[str, tuple[float, float, float]], bad: list[str], run: float
) -> Verdict:
    cpu, gpu, memory = (max(judged[each][i] for each in bad) for i in range(3))
    wait = numbers.get("wait_share_pct")
    waits = wait is not None and wait >= WAITS_PCT
    held_up = f" But the loop waited for data for {wait:.0f} % of the step time." if waits else ""
    low, high = _gained_seconds(numbers, bad, run)
    return Verdict(
        "fired",
        f"{sentence(some_gpus(len(bad), len(judged)))} had room for a larger batch "
        f"({name_gpus(bad, judged)}): p95 of GPU utilisation at most {gpu:.0f} %, of GPU memory "
        f"{memory:.0f} %, of CPU {cpu:.0f} %.{held_up}",
        advice=_advice(memory, waits),
        claims=(Claim.from_range(IDLE_GPUS, 0.0 if waits else low, high),),
        severity="medium",
        dedupe_key="batch_size",
    )


def _advice(memory_pct: float, waits: bool) -> str:
    """Say how much larger the batch may be: memory grows at most in proportion to it."""
    times = math.floor(10 * min(TARGET_MEMORY_PCT / max(memory_pct, 1.0), MOST_TIMES)) / 10
    first = "Fix the wait for data first. Then raise" if waits else "Raise"
    return (
        f"{first} the batch size, and the learning rate with it. Up to {times:.1f} times as large, "
        f"GPU memory stays below {TARGET_MEMORY_PCT:.0f} %. Or use a smaller GPU."
    )


def _judged(numbers: Numbers, needed: float) -> dict[str, tuple[float, float, float]]:
    """Return the CPU, GPU and memory percentiles of each GPU that is known for long enough."""
    cpu, gpu = numbers.by_entity("cpu_p95_pct"), numbers.by_entity("gpu_p95_pct")
    memory, seen = numbers.by_entity("gpu_memory_p95_pct"), numbers.by_entity("seen_seconds")
    both = sorted(gpu.keys() & memory.keys())
    nodes = {entity: entity.rpartition("/")[0] for entity in both}
    known = [e for e in both if nodes[e] in cpu and seen.get(e, 0.0) >= needed]
    return {e: (cpu[nodes[e]], gpu[e], memory[e]) for e in known}


def _is_small(percentiles: tuple[float, float, float], values: Values) -> bool:
    names = ("cpu_threshold_p95", "gpu_threshold_p95", "gpu_memory_threshold_p95")
    return all(pct < values[name] for pct, name in zip(percentiles, names, strict=True))


def _what_lacks(numbers: Numbers, judged: Collection[str], needed: float) -> str:
    """Say why GPUs other than those in `judged` can't be judged."""
    seen = {g: s for g, s in numbers.by_entity("seen_seconds").items() if g not in judged}
    if short := [seconds for seconds in seen.values() if seconds < needed]:
        return f"Not enough data: {write_shortage(max(short), needed, 'of samples after warm-up')}."
    memory, cpu = numbers.by_entity("gpu_memory_p95_pct"), numbers.by_entity("cpu_p95_pct")
    if any(gpu not in memory for gpu in seen):
        return "Missing: used GPU memory as a share of its size."
    if any(gpu.rpartition("/")[0] not in cpu for gpu in seen):
        return "Missing: CPU utilisation."
    return "Missing: the utilisation of a used GPU."


def _gained_seconds(numbers: Numbers, bad: list[str], run: float) -> tuple[float, float]:
    """Return what each bad GPU's share of the run gains: at most its idle time."""
    idle, seen = numbers.by_entity("idle_seconds"), numbers.by_entity("seen_seconds")
    count = max(numbers.get("gpus_count") or 0.0, float(len(bad)))
    low = sum(min((1 - 1 / GAIN_LOW) * seen.get(g, 0.0), idle.get(g, 0.0)) for g in bad)
    high = sum(min((1 - 1 / GAIN_HIGH) * seen.get(g, 0.0), idle.get(g, 0.0)) for g in bad)
    return clamp_seconds(min(low, high) / count, run), clamp_seconds(high / count, run)


def _cpu_p95(node: NodeFrame, frame: RunFrame, values: Values) -> float | None:
    cpu = cpu_pct(node, frame.resolution_seconds)
    table = window_percentiles(node, cpu, values["window_seconds"], {"p95": 95})
    return table.median("p95") if len(table) else None


def _gpu_numbers(
    node: NodeFrame, number: int, memory: pd.DataFrame, frame: RunFrame, values: Values
) -> tuple[dict[str, float | None], Window | None]:
    used = known_part(memory[number]) if number in memory else None
    length, busy = values["window_seconds"], node.gpu_busy_pct(number)
    tables = (
        gpu_windows(node, number, length),
        window_percentiles(node, used, length, {"p95": 95}),
    )
    gpu_p95, memory_p95 = (t.median("p95") if len(t) else None for t in tables)
    work = series_while_working(node, busy)
    measured: dict[str, float | None] = {"gpu_p95_pct": gpu_p95, "gpu_memory_p95_pct": memory_p95}
    if work is None:
        return measured, None
    resolution = frame.resolution_seconds
    measured["seen_seconds"] = len(work) * resolution
    measured["idle_seconds"] = idle_seconds(work, resolution)
    entity = f"{node.key}/gpu{number}"
    return measured, Window(float(work.index[0]), float(work.index[-1]) + resolution, entity)


RULE = Rule(
    id="batch_size",
    title="Batch too small for the GPU",
    category=GPU,
    version=6,
    needs=("gpu*.busy_pct",),
    claims_on=IDLE_GPUS,
    directness=Directness.SYMPTOM,
    parameters=(
        Parameter(
            "cpu_threshold_p95",
            "%",
            70,
            0,
            100,
            "CPU p95 below",
            "SageMaker, 70",
            "cpu_threshold_p95",
            save=80,
            safe=50,
        ),
        Parameter(
            "gpu_threshold_p95",
            "%",
            70,
            0,
            100,
            "GPU p95 below",
            "SageMaker, 70",
            "gpu_threshold_p95",
            save=80,
            safe=50,
        ),
        Parameter(
            "gpu_memory_threshold_p95",
            "%",
            70,
            0,
            100,
            "GPU memory p95 below",
            "SageMaker, 70",
            "gpu_memory_threshold_p95",
            save=80,
            safe=50,
        ),
        Parameter(
            "window_seconds",
            "s",
            250,
            10,
            86_400,
            "Window length",
            "SageMaker, 500 samples at 0.5 s",
            sagemaker_name="window",
            sagemaker_factor=SAGEMAKER_SAMPLE_SECONDS,
            measured=True,
        ),
        *patience_parameters(),
    ),
    measure=measure,
    judge=judge,
    sagemaker_name="BatchSize",
)

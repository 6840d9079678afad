"""Used GPU memory rises steadily during the run, as a leak does.

## What it checks
For each GPU, the used memory as a share of its size, from after warm-up and a first minute
(5 % of a short run) to the last step. That time is cut into twenty equal parts (10 to 300 s). Two
figures count: the rise from the first part to the last, and how steadily the parts rise (their rank
correlation with time).

## Why it costs money
Memory that is never freed ends in an out-of-memory error, and all work since the last checkpoint is
computed again.

## When it fires
When a GPU's rise is more than `increase` percentage points and its rank correlation with time is at
least `steadiness`. It needs 8 known parts and `patience_seconds` of known samples, or
`patience_share_pct` of a short run. It passes only if that is known of every GPU.

A first step of 10 s and more is warm-up, because it compiles. A running run that has reported no
other step may still be starting up: it needs the whole `patience_seconds`.

## When it is wrong
A caching allocator (PyTorch's) grows with the largest batch so far and then stays: one rise, not a
leak. Loading a second model late in the run looks like a rise as well.

## How to fix it
Keep no tensors of past steps (`loss.item()`, `detach()`), limit caches, pad batches to few sizes
(`expandable_segments`). If the memory is nearly full, use a GPU with more, or checkpoint more
often.

## Parameters
`increase` as in SageMaker, in percentage points. `patience_seconds` is SageMaker's `patience` at
two samples a second; `patience_share_pct` lets short runs be judged; `steadiness` separates a rise
from ups and downs.

## Sources
SageMaker Debugger's GPUMemoryIncrease: increase 5, patience 1000 (its guide says 10, 100 and 500).
Differences: memory is the memory in use, where SageMaker takes the activity of the memory
controller; the rise over the whole run counts, where SageMaker compares two averages that share 8
of their 9 or 10 samples, which reacts to any flicker and misses slow leaks; ups and downs don't
count. SageMaker's `window` therefore has no meaning here. At risk is the time since the last
checkpoint, and only if another run of this length would fill the memory; a run that ended well lost
nothing.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from rules.activity import first_step_end_seconds, working
from rules.bottleneck import patience_parameters
from rules.category import GPU
from rules.checkpoints import checkpoint_spans
from rules.evidence import clamp_seconds
from rules.frame import NodeFrame, RunFrame
from rules.rule import Numbers, Parameter, Rule, Values, Verdict, Window
from rules.sagemaker_statistics import gpu_memory_table
from rules.windows import needed_seconds, start_up
from rules.wording import lasting, some_gpus, write_count, write_shortage

PARTS, FEWEST_PARTS = 20, 8
SHORTEST_PART_SECONDS, LONGEST_PART_SECONDS = 10.0, 300.0
SETTLING_SECONDS, SETTLING_SHARE = 60.0, 0.05


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers = start_up(frame) | {
        "run_seconds": frame.duration_seconds,
        "unsaved_seconds": _unsaved_seconds(frame),
    }
    windows: list[Window] = []
    count = 0
    for node in frame.nodes.values():
        count += len(node.allocated_gpus())
        memory = gpu_memory_table(node)
        for number in memory.columns:
            entity = f"{node.key}/gpu{number}"
            # Memory freed after the last step says nothing about the steps.
            part = working(node, memory[number].dropna())
            if part is None:
                continue
            measured, window = _gpu_numbers(node, part, frame.resolution_seconds, entity)
            numbers |= {f"{name}@{entity}": value for name, value in measured.items()}
            windows += [window] if window else []
    return Numbers(numbers | {"gpus_count": float(count)}, tuple(windows))


def judge(numbers: Numbers, values: Values) -> Verdict:
    if not (numbers.get("gpus_count") or 0.0):
        return Verdict("not_applicable", "The run was given no GPU.")
    if numbers.get("has_begun") == 0:
        return Verdict("insufficient_data", "No GPU has been used so far.")
    needed, seen = needed_seconds(values, numbers), numbers.by_entity("seen_seconds")
    steady, last = numbers.by_entity("steadiness"), numbers.by_entity("last_pct")
    rises = {
        gpu: rise
        for gpu, rise in numbers.by_entity("rise_points").items()
        if seen.get(gpu, 0.0) >= needed and gpu in steady and gpu in last
    }
    bad = {
        g: rise
        for g, rise in rises.items()
        if rise > values["increase"] and steady.get(g, 0.0) >= values["steadiness"]
    }
    if not bad and (not rises or rises.keys() != numbers.entities("seen_seconds")):
        return Verdict("insufficient_data", _what_lacks(numbers, rises.keys(), needed))
    if not bad:
        highest = max(rises.values())
        most = f"; the highest was {highest:.1f} percentage points" if highest > 0 else ""
        return Verdict("passed", f"No steady rise{most}.")
    worst = max(bad, key=lambda g: bad[g])
    fills = last[worst] + bad[worst] >= 100
    unsaved = numbers.get("unsaved_seconds")
    lost = "" if unsaved is None else f" When it is full, {lasting(unsaved)} of work is lost."
    return Verdict(
        "fired",
        f"Used memory kept growing on {some_gpus(len(bad), len(rises))}, on {worst} by "
        f"{bad[worst]:.1f} percentage points to {last[worst]:.0f} %.{lost if fills else ''}",
        advice="Keep no tensors of past steps. If the memory is nearly full, use a GPU with more.",
        severity="high" if fills else "low",
        dedupe_key="gpu_memory_increase",
    )


def _what_lacks(numbers: Numbers, judged: Collection[str], needed: float) -> str:
    """Say why GPUs other than those in `judged` can't be judged."""
    seen = {g: s for g, s in numbers.by_entity("seen_seconds").items() if g not in judged}
    if short := [seconds for seconds in seen.values() if seconds < needed]:
        known = write_shortage(max(short), needed, "of used GPU memory after settling")
        return f"Not enough data: {known}."
    parts = numbers.by_entity("parts_count")
    if few := [parts[gpu] for gpu in seen if parts.get(gpu, FEWEST_PARTS) < FEWEST_PARTS]:
        each = f"of at least {SHORTEST_PART_SECONDS:.0f} s with used GPU memory"
        return f"Not enough data: {write_count(max(few), 'part')} {each}, {FEWEST_PARTS} needed."
    return "Missing: used GPU memory as a share of its size."


def _gpu_numbers(
    node: NodeFrame, used_pct: pd.Series[float], resolution_seconds: float, entity: str
) -> tuple[dict[str, float | None], Window | None]:
    parts, seen = _parts(node, used_pct, resolution_seconds)
    if len(parts) < FEWEST_PARTS:
        return {"seen_seconds": seen, "parts_count": float(len(parts))}, None
    means = parts.to_numpy(dtype=float)
    rise = min(_rise(means, 1), _rise(means, 3))
    measured: dict[str, float | None] = {
        "seen_seconds": seen,
        "parts_count": float(len(parts)),
        "rise_points": rise,
        "last_pct": float(means[-1]),
        "steadiness": _rank_correlation(means),
    }
    return measured, Window(float(parts.index[0]), float(used_pct.index[-1]), entity)


def _rise(means: np.ndarray, ends: int) -> float:
    """Return the rise from the first to the last `ends` parts, whose centres are `ends` parts less
    than all apart. One part is too sensitive to ups and downs, three to a single step.
    """
    across = len(means) / (len(means) - ends)
    return float((means[-ends:].mean() - means[:ends].mean()) * across)


def _parts(
    node: NodeFrame, used_pct: pd.Series[float], resolution_seconds: float
) -> tuple[pd.Series[float], float]:
    """Return the mean of each equal part by its start, and the known seconds of all parts."""
    begin, end = first_step_end_seconds(node), float(used_pct.index[-1])
    begin += min(SETTLING_SECONDS, SETTLING_SHARE * max(end - begin, 0.0))
    rest = used_pct[used_pct.index >= begin]
    span = end - begin + resolution_seconds
    length = float(np.clip(span / PARTS, SHORTEST_PART_SECONDS, LONGEST_PART_SECONDS))
    number = np.floor((rest.index.to_numpy(dtype=float) - begin) / length)
    cells = pd.Series(rest.to_numpy(), index=begin + number * length).groupby(level=0)
    counts = cells.size()
    enough = counts >= 0.5 * counts.max() if len(counts) else counts.astype(bool)
    return cells.mean()[enough], len(rest) * resolution_seconds


def _rank_correlation(values: np.ndarray) -> float:
    """Return Spearman's rank correlation of the values with their order; 0 if all are equal."""
    ranks = pd.Series(values).rank().to_numpy()
    if np.ptp(ranks) == 0:
        return 0.0
    return float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1])


def _unsaved_seconds(frame: RunFrame) -> float:
    """Return how long before the end the last checkpoint was saved; the whole run if there is
    none.
    """
    ends = [
        span.end_seconds
        for node in frame.nodes.values()
        for span in checkpoint_spans(node, frame.duration_seconds)
    ]
    return clamp_seconds(frame.duration_seconds - max(ends, default=0.0), frame.duration_seconds)


RULE = Rule(
    id="gpu_memory_increase",
    title="GPU memory keeps growing",
    category=GPU,
    version=3,
    needs=("gpu*.memory_used_bytes",),
    parameters=(
        Parameter(
            "increase", "points", 5, 0, 100, "Fires above this rise", "SageMaker, 5", "increase"
        ),
        *patience_parameters(),
        Parameter("steadiness", "of 1", 0.6, 0, 1, "Least rank correlation with time", "ours"),
    ),
    measure=measure,
    judge=judge,
    reports_risk=True,
    sagemaker_name="GPUMemoryIncrease",
)

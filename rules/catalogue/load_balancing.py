"""Some GPUs work much more than others.

## What it checks
The used GPUs with the highest and the lowest mean utilisation during work: the distance between the
histograms of their utilisation (square root of the Jensen-Shannon divergence, natural logarithm, 0
to 0.833), and the difference of their means.

## Why it costs money
GPUs that train together run at the pace of the busiest one; the others are paid for waiting.

## When it fires
When the distance is more than `threshold` and the means differ by at least `minimum_difference_pct`
points. It needs `patience_seconds` of known samples of both, or `patience_share_pct` of a short
run, and never less than 20 s.

A first step of 10 s and more is warm-up, because it compiles. A running run that has reported no
other step may still be starting up: it needs the whole `patience_seconds`.

## When it is wrong
Utilisation is the share of time in which a kernel ran. A GPU that waits for the others inside a
collective operation looks busy, so a straggler may stay hidden. A pipeline with stages of unequal
size on purpose looks like a bad one.

## How to fix it
Use DistributedDataParallel rather than DataParallel, equal shards and equal pipeline stages, and
don't gather results on the first GPU.

## Parameters
`threshold` as in SageMaker. `patience_seconds` is SageMaker's `patience` at two samples a second;
`patience_share_pct` lets short runs be judged; `minimum_difference_pct` is the least difference
that matters.

## Sources
SageMaker Debugger's LoadBalancing: threshold 0.2 (its guide and its open package say 0.5), patience
1000. Differences: all samples count, where SageMaker has no bin for those above 98 % and doesn't
see a busy GPU; the most and the least busy GPU of all nodes are compared, not each pair of a node;
a GPU that was never used is unused, not unbalanced; two narrow histograms side by side (95 and 97
%) are far apart and cost nothing, so the means must differ too (5 points: ours, half of TraceML's
10 % skew); the distance that chance alone gives with this number of samples is subtracted; warm-up
and the time after the last step are left out. What balance gives back (half to all of the busiest
GPU's work above the mean) is our estimate.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from rules.activity import working
from rules.bottleneck import patience_parameters
from rules.category import GPU
from rules.evidence import clamp_seconds
from rules.frame import RunFrame
from rules.gpus import gpu_counts, unfit
from rules.rule import Claim, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.sagemaker_statistics import distance
from rules.windows import needed_seconds
from rules.wording import write_shortage

EDGES = np.arange(0.0, 101.0, 2.0)
RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 1.0

LABELS = ("gpu_idle", "low_sm", "communication", "data_stall", "effective")


def measure(frame: RunFrame, values: Values) -> Numbers:
    work = {
        f"{node.key}/gpu{number}": busy
        for node in frame.nodes.values()
        for number in node.used_gpus
        if (busy := working(node, node.gpu_busy_pct(number))) is not None
    }
    numbers: dict[str, float | None] = gpu_counts(frame) | {"run_seconds": frame.duration_seconds}
    means = {gpu: float(busy.to_numpy().mean()) for gpu, busy in work.items()}
    numbers |= {f"mean_pct@{gpu}": mean for gpu, mean in means.items()}
    if len(work) < 2:
        return Numbers(numbers)
    most = max(work, key=lambda gpu: means[gpu])
    least = min(work, key=lambda gpu: means[gpu])
    numbers |= _compared(work[most], work[least], frame.resolution_seconds)
    numbers["lost_share_pct"] = 100 * (1 - float(np.mean(list(means.values()))) / means[most])
    end = float(work[least].index[-1]) + frame.resolution_seconds
    return Numbers(numbers, (Window(float(work[least].index[0]), end, least),))


def judge(numbers: Numbers, values: Values) -> Verdict:
    if (numbers.get("gpus_count") or 0.0) < 2:
        return Verdict("not_applicable", "The run was given fewer than two GPUs.")
    if reason := unfit(numbers):
        return reason
    known, given = numbers.get("known_gpus_count") or 0.0, numbers.get("gpus_count") or 0.0
    if (numbers.get("used_gpus_count") or 0.0) < 2:
        if known < given:
            return Verdict("insufficient_data", "Missing: the utilisation of some GPUs.")
        return Verdict("not_applicable", "Only one GPU was used: see unused_gpus.")
    run = numbers.get("run_seconds") or 0.0
    seen, needed = numbers.get("seen_seconds"), needed_seconds(values, numbers)
    apart, difference = numbers.get("distance"), numbers.get("difference_pct")
    if seen is not None and seen < needed:
        short = write_shortage(seen, needed, "of work with both GPUs known")
        return Verdict("insufficient_data", f"Not enough data: {short}.")
    if seen is None or apart is None or difference is None:
        return Verdict("insufficient_data", "Missing: work during which both GPUs are known.")
    summary = (
        f"{_most_and_least(numbers)} The means differ by {difference:.1f} points; the distance of "
        f"the histograms is {apart:.2f}."
    )
    if not (apart > values["threshold"] and difference >= values["minimum_difference_pct"]):
        return Verdict("passed", summary)
    lost = clamp_seconds((numbers.get("lost_share_pct") or 0.0) / 100 * seen, min(seen, run))
    return Verdict(
        "fired",
        summary,
        advice=_advice(numbers),
        claims=(Claim(LABELS, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="high" if difference >= 30 else "medium",
        dedupe_key="load_balancing",
    )


def _most_and_least(numbers: Numbers) -> str:
    means, (most, least) = numbers.by_entity("mean_pct"), _ends(numbers)
    if not most:
        return "The used GPUs differ."
    return (
        f"The busiest used GPU is {_name(most, least)} (mean {means[most]:.0f} %), the least busy "
        f"{_name(least, most)} ({means[least]:.0f} %)."
    )


def _advice(numbers: Numbers) -> str:
    most, least = _ends(numbers)
    moved = f" Move work from {_name(most, least)} to {_name(least, most)}." if most else ""
    return (
        f"Balance the work.{moved} Use DistributedDataParallel instead of DataParallel, equal "
        "shards and equal pipeline stages."
    )


def _ends(numbers: Numbers) -> tuple[str, str]:
    """Return the most and the least busy used GPU; empty if they are not known."""
    means = numbers.by_entity("mean_pct")
    if len(means) < 2:
        return "", ""
    return max(means, key=lambda gpu: means[gpu]), min(means, key=lambda gpu: means[gpu])


def _name(gpu: str, other: str) -> str:
    """Return the GPU's name, with its node if the other one is on another node."""
    node, _, name = gpu.rpartition("/")
    return name if node == other.rpartition("/")[0] else gpu


def _compared(
    most: pd.Series[float], least: pd.Series[float], resolution_seconds: float
) -> dict[str, float | None]:
    high, low = most.to_numpy(), least.to_numpy()
    counts = [np.histogram(busy.clip(0, 100), bins=EDGES)[0] for busy in (high, low)]
    return {
        "seen_seconds": min(len(most), len(least)) * resolution_seconds,
        "distance": _beyond_chance(counts[0], counts[1]),
        "difference_pct": float(high.mean() - low.mean()),
    }


def _beyond_chance(first: np.ndarray, second: np.ndarray) -> float | None:
    """Return the distance without what two samples of one distribution would be apart.

    It follows from Miller's and Madow's first-order bias of entropies: (k - 1) / 8 (1/n + 1/m) for
    k bins in use and n and m samples.
    """
    apart = distance(first, second)
    if apart is None:
        return None
    bins = int(((first + second) > 0).sum())
    chance = (bins - 1) / 8 * (1 / first.sum() + 1 / second.sum())
    return float(np.sqrt(max(apart**2 - chance, 0.0)))


RULE = Rule(
    id="load_balancing",
    title="Uneven load across GPUs",
    category=GPU,
    version=3,
    needs=("gpu*.busy_pct",),
    claims_on=LABELS,
    parameters=(
        Parameter(
            "threshold",
            "of 0.833",
            0.2,
            0,
            0.833,
            "Fires above this distance",
            "SageMaker, 0.2",
            "threshold",
            save=0.15,
            safe=0.3,
        ),
        Parameter(
            "minimum_difference_pct", "points", 5, 0, 100, "Least difference of the means", "ours"
        ),
        *patience_parameters(),
    ),
    measure=measure,
    judge=judge,
    sagemaker_name="LoadBalancing",
)

"""Some steps take much longer than the others.

## What it checks
The durations of all steps but the first, for each rank and phase (training, evaluation). An outlier
is longer than the median by more than `stddev` standard deviations and by at least
`least_excess_pct`. The standard deviation is a robust one: 1.4826 times the median absolute
deviation, which outliers don't inflate.

## Why it costs money
During an outlier everything waits: for a disk, a full queue, garbage collection, a recompilation,
another node.

## When it fires
When the worst rank has more than `n_outliers` outliers beyond those that normal noise gives for its
number of steps (one in 740 beyond 3 deviations). It needs more than `minimum_steps` steps, most of
them recorded individually: above 500 in ten seconds they are summarised by second.

## When it is wrong
Batches of very different size have steps of very different duration. Steps that are slow on purpose
at regular intervals (accumulation, logging every so many steps) count as outliers.

## How to fix it
See what else happens at these times: writing, evaluation, memory, other nodes. Pad batches to few
sizes to avoid recompilation; freeze the garbage collector; log less often.

## Parameters
`stddev`, `n_outliers` and `mode` as in SageMaker; `mode` is `None` (all), `TRAIN` or `EVAL`.
`minimum_steps` is SageMaker's fixed 100; `least_excess_pct` keeps very regular runs from firing.

## Sources
SageMaker Debugger's StepOutlier: stddev 3 (its guide says 5), n_outliers 10, mode None, more than
100 steps. Differences: the first step is left out, which inflates SageMaker's deviation; median and
robust deviation instead of mean and deviation of all; the outliers expected by chance are
subtracted, so that long runs don't fire by their length; each step counts once, where SageMaker
counts a step at the edge of two scans twice; both phases are shown, where SageMaker overwrites the
first with the last. That a fix gives back half to all of the excess is our estimate; the 10 % are
ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rules.category import STEPS
from rules.evidence import within
from rules.frame import RunFrame
from rules.intervals import merged
from rules.rule import Numbers, Parameter, Rule, Values, Verdict, Window

MODES = ("None", "TRAIN", "EVAL")
PHASES = (("train", "evaluate"), ("train",), ("evaluate",))
ROBUST = 1.4826
MOST_WINDOWS = 200
_COLUMNS = ("node", "rank", "phase", "start_seconds", "duration_seconds")
RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 1.0


@dataclass(frozen=True)
class _RankOutliers:
    """The outlier steps of one rank and phase."""

    node: str
    steps: int
    median_seconds: float
    outliers: pd.DataFrame
    by_chance: float
    """The number expected in normal noise."""

    @property
    def beyond_chance(self) -> float:
        return len(self.outliers) - self.by_chance

    @property
    def excess_seconds(self) -> float:
        return float((self.outliers["duration_seconds"] - self.median_seconds).sum())


def measure(frame: RunFrame, values: Values) -> Numbers:
    steps = frame.steps
    chosen = steps["phase"].isin(PHASES[int(values["mode"])]) & (steps["duration_seconds"] > 0)
    counts = steps["count"].fillna(1)
    every = float(counts[chosen].sum())
    single = steps.loc[chosen & (counts == 1), list(_COLUMNS)]
    numbers: dict[str, float | None] = {
        "run_seconds": frame.duration_seconds,
        "single_share_pct": 100 * len(single) / every if every else None,
        "steps_count": 0.0,
    }
    ranks = list(_ranks(single, values))
    if not ranks:
        return Numbers(numbers)
    worst = max(ranks, key=lambda rank: rank.beyond_chance)
    numbers |= {
        "steps_count": float(max(rank.steps for rank in ranks)),
        "outliers_count": float(len(worst.outliers)),
        "outliers_beyond_chance_count": worst.beyond_chance,
        "median_seconds": worst.median_seconds,
        "excess_seconds": max(rank.excess_seconds for rank in ranks),
    }
    return Numbers(numbers, _windows(worst))


def judge(numbers: Numbers, values: Values) -> Verdict:
    steps, single = numbers.known("steps_count") or 0.0, numbers.known("single_share_pct")
    if single is not None and single < 50:
        summed = f"{100 - single:.0f} % of the steps were recorded as sums by second"
        return Verdict("insufficient_data", f"Not enough data: {summed}.")
    if steps <= values["minimum_steps"]:
        needed = f"more than {values['minimum_steps']:.0f} per rank needed"
        return Verdict("insufficient_data", f"Not enough data: {steps:.0f} steps, {needed}.")
    count = numbers.known("outliers_count") or 0.0
    beyond = numbers.known("outliers_beyond_chance_count") or 0.0
    median, excess = numbers.known("median_seconds") or 0.0, numbers.known("excess_seconds") or 0.0
    summary = f"One rank has {count:.0f} outliers among {steps:.0f} steps (median {median:.3g} s)."
    if not beyond > values["n_outliers"]:
        return Verdict("passed", summary)
    lost = within(excess, numbers.known("run_seconds") or 0.0)
    return Verdict(
        "fired",
        f"{summary} They took {excess:.1f} s longer than median steps.",
        advice="See what else happens at these times: writing, evaluation, memory, other nodes.",
        waste_seconds_low=RECOVERABLE_LOW * lost,
        waste_seconds_high=RECOVERABLE_HIGH * lost,
        severity="medium" if lost > 0.05 * (numbers.known("run_seconds") or 0.0) else "low",
        dedupe_key="step_outlier",
    )


def _ranks(steps: pd.DataFrame, values: Values) -> Iterator[_RankOutliers]:
    starts = steps["start_seconds"].to_numpy(dtype=float)
    for places in steps.groupby(["node", "rank", "phase"], sort=False).indices.values():
        rest = np.delete(places, np.nanargmin(starts[places]))
        if len(rest) <= values["minimum_steps"]:
            continue
        durations = steps["duration_seconds"].to_numpy(dtype=float)[rest]
        median = float(np.median(durations))
        deviation = ROBUST * float(np.median(np.abs(durations - median)))
        excess = max(values["stddev"] * deviation, values["least_excess_pct"] / 100 * median)
        chance = math.erfc(excess / deviation / math.sqrt(2)) / 2 if deviation > 0 else 0.0
        outliers = steps.iloc[rest[durations > median + excess]]
        node = str(steps["node"].iloc[rest[0]])
        yield _RankOutliers(node, len(rest), median, outliers, chance * len(rest))


def _windows(worst: _RankOutliers) -> tuple[Window, ...]:
    """The longest outliers."""
    slowest = worst.outliers.nlargest(MOST_WINDOWS, "duration_seconds")
    pairs = zip(slowest["start_seconds"], slowest["duration_seconds"], strict=True)
    return merged([Window(float(at), float(at + long), worst.node) for at, long in pairs], 0.5)


RULE = Rule(
    id="step_outlier",
    title="Step outliers",
    category=STEPS,
    version=1,
    needs=("steps",),
    parameters=(
        Parameter(
            "stddev",
            "deviations",
            3,
            0.5,
            100,
            "Outliers are beyond",
            "SageMaker, 3",
            "stddev",
            measured=True,
        ),
        Parameter(
            "n_outliers",
            "steps",
            10,
            0,
            1e6,
            "Fires above this many outliers",
            "SageMaker, 10",
            sagemaker_name="n_outliers",
            save=5,
            safe=20,
        ),
        Parameter(
            "mode",
            "phase",
            0,
            0,
            2,
            "Steps that are judged",
            "SageMaker",
            "mode",
            choices=MODES,
            measured=True,
        ),
        Parameter(
            "minimum_steps",
            "steps",
            100,
            10,
            1e6,
            "Least steps per rank to judge",
            "SageMaker, 100",
            measured=True,
        ),
        Parameter(
            "least_excess_pct",
            "%",
            10,
            0,
            1000,
            "And at least this much above the median",
            "ours",
            measured=True,
        ),
    ),
    measure=measure,
    judge=judge,
    sagemaker_name="StepOutlier",
)

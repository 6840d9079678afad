"""Some steps take much longer than the others.

## What it checks
The durations of all steps but the first, for each rank and phase (training, evaluation), without
the time in which the step waited for data, and without recorded checkpoints and evaluations:
`input_bound`, `checkpoint_stalls` and `evaluation_share` report those. An outlier is longer than
the fence of the run's own steps, and at least `least_excess_pct` longer than the median.

The fence is the third quartile plus a multiple of the interquartile range, both of the logarithm of
the durations. The multiple is the one that lies `stddev` standard deviations above the median of a
normal distribution, and more if the steps are skewed to the right. Outliers hardly move quartiles.

A GPU works asynchronously: a step's time is that of its launches, and a synchronisation every 20
steps (`loss.item()` for a log) gathers the time of them all. Only the time from one synchronisation
to the next is a duration. So where most long steps come again at one distance, more than chance
gives, blocks of steps that end with them are judged in place of single steps, by their time per
step.

## Why it costs money
During an outlier everything waits: for a disk, a full queue, garbage collection, a recompilation,
another node.

## When it fires
When the worst rank has more than `n_outliers` outliers beyond those that chance gives for its
number of steps (one in 740 beyond 3 deviations), and they are at most `most_outliers_pct` of its
steps. More slow steps than that are a second mode: the rule passes and says so. It needs more than
`minimum_steps` steps, at least 50 % of them recorded individually: above 500 in ten seconds they
are summarised by second.

## When it is wrong
Data waits and checkpoints that weren't recorded count as part of the step. Work at regular
intervals (logging every so many steps) looks like a synchronisation and is no outlier, however long
it takes.

## How to fix it
See what else happens at these times: writing, memory, other nodes. Pad batches to few sizes to
avoid recompilation; freeze the garbage collector; log less often.

## Parameters
`stddev`, `n_outliers` and `mode` as in SageMaker; `mode` is `None` (all), `TRAIN` or `EVAL`.
`minimum_steps` is SageMaker's fixed 100; `least_excess_pct` keeps very regular runs from firing;
`most_outliers_pct` is the largest share of steps that counts as outliers.

## Sources
SageMaker Debugger's StepOutlier: stddev 3 (its guide says 5), n_outliers 10, mode None, more than
100 steps. Where SageMaker correlates outliers with operations, this rule says how busy the node was
during them and otherwise. Differences: the first step is left out, which inflates SageMaker's
deviation; quartiles instead of mean and deviation of all; the outliers expected by chance are
subtracted, so that long runs don't fire by their length; each step counts once, where SageMaker
counts a step at the edge of two scans twice; both phases are shown, where SageMaker overwrites the
first with the last. The fence is the adjusted boxplot of Hubert and Vandervieren (Computational
Statistics & Data Analysis 52, 2008), whose factor exp(3 MC) allows for skew, measured by the
medcouple MC (Brys, Hubert and Struyf, 2004); we take it of logarithms, since step times are bounded
below and have a long upper tail, and never lower it for a skew to the left. Steps with normal,
lognormal, gamma, Weibull, Pareto and Student's t distributions then have few outliers beyond
chance. That a fix gives back half to all of the excess is our estimate; 10 %, 5 % and the distance
that at least 60 % of the long steps have in common, beyond chance, are ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.category import STEPS
from rules.checkpoints import checkpoint_spans
from rules.evidence import clamp_seconds
from rules.frame import Flags, NodeFrame, RunFrame
from rules.grid import Floats
from rules.intervals import covered_parts, merge_windows
from rules.outlier_load import load_words, loads
from rules.rule import Claim, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.training_loop import phase_spans
from rules.wording import write_count

MODES = ("None", "TRAIN", "EVAL")
PHASES = (("train", "evaluate"), ("train",), ("evaluate",))
MOST_WINDOWS = 200
QUARTILE = 0.6745
"""The upper quartile of a normal distribution, in standard deviations."""
SKEW_FACTOR = 3.0
"""Hubert and Vandervieren's, for a skew to the right."""
_GRID = np.linspace(0.005, 0.995, 100)
"""The quantiles of which the medcouple is computed: its cost doesn't grow with the steps."""
_SHORTEST_SECONDS = 1e-6
LEAST_SINGLE_PCT = 50.0
PERIODIC_SHARE, FURTHEST_NEIGHBOUR, PERIODIC_BY_CHANCE = 0.6, 4, 0.05
"""Long steps are periodic if so many of them have another one at the same distance, counted to the
fourth neighbour, because real outliers lie between them; and if chance gives that less often."""
Phases = tuple[str, ...]
RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 1.0


@dataclass(frozen=True)
class _RankOutliers:
    """The outliers of one rank and phase: single steps, or blocks of steps."""

    node: str
    steps: int
    period: int
    """Steps from one synchronisation to the next; 1: single steps are judged."""
    judged: int
    """The number of steps or blocks that were judged."""
    median_seconds: float
    """The median time of a step."""
    starts: Floats
    lengths: Floats
    """The outliers' lengths, in seconds."""
    excess: Floats
    """The seconds above the median, without waits for data, checkpoints and evaluations."""
    by_chance: float
    """The number expected in noise."""

    @property
    def count(self) -> int:
        return len(self.starts)

    @property
    def beyond_chance(self) -> float:
        return self.count - self.by_chance

    @property
    def excess_seconds(self) -> float:
        """Return what the outliers beyond chance took more than the median."""
        if not self.count:
            return 0.0
        return float(self.excess.sum()) * max(self.beyond_chance, 0.0) / self.count


LABELS = ("gpu_idle", "unused_cores", "starved", "effective")


def measure(frame: RunFrame, values: Values) -> Numbers:
    phases = PHASES[int(values["mode"])]
    nodes = frame.nodes.values()
    every = sum(_count(node, phases) for node in nodes)
    single = sum(int(node.once(_is_single, phases).sum()) for node in nodes)
    numbers: dict[str, float | None] = {
        "run_seconds": frame.duration_seconds,
        "single_share_pct": 100 * single / every if every else None,
        "steps_count": _most_steps(frame, phases),
    }
    ranks = list(_ranks(frame, phases, values))
    if not ranks:
        return Numbers(numbers)
    worst = max(ranks, key=lambda rank: rank.beyond_chance)
    numbers |= {
        "steps_count": float(worst.steps),
        "period_steps": float(worst.period),
        "judged_count": float(worst.judged),
        "outliers_count": float(worst.count),
        "outliers_share_pct": 100 * worst.count / worst.steps,
        "outliers_beyond_chance_count": worst.beyond_chance,
        "median_seconds": worst.median_seconds,
        "excess_seconds": worst.excess_seconds,
    }
    found = worst.starts, worst.lengths
    numbers |= loads(frame.nodes[worst.node], *found, frame.resolution_seconds)
    return Numbers(numbers, _windows(worst))


def judge(numbers: Numbers, values: Values) -> Verdict:
    steps, single = numbers.get("steps_count") or 0.0, numbers.get("single_share_pct")
    if single is None:
        return Verdict("insufficient_data", "Missing: steps that took time.")
    if single < LEAST_SINGLE_PCT:
        recorded = f"{math.floor(single)} % of the steps were recorded one by one"
        short = f"{recorded}, {LEAST_SINGLE_PCT:.0f} % needed"
        return Verdict("insufficient_data", f"Not enough data: {short}.")
    if steps <= values["minimum_steps"]:
        needed = f"more than {values['minimum_steps']:.0f} per rank needed"
        return Verdict(
            "insufficient_data", f"Not enough data: {write_count(steps, 'step')}, {needed}."
        )
    count = numbers.get("outliers_count") or 0.0
    beyond = numbers.get("outliers_beyond_chance_count") or 0.0
    median, excess = numbers.get("median_seconds") or 0.0, numbers.get("excess_seconds") or 0.0
    share = numbers.get("outliers_share_pct")
    among = _among(numbers, steps)
    outliers = write_count(count, "outlier")
    summary = f"One rank has {outliers} among {among} (median {median:.3g} s a step)."
    if not beyond > values["n_outliers"]:
        return Verdict("passed", summary)
    if share is None:
        return Verdict("insufficient_data", "Missing: the share of steps that are outliers.")
    if share > values["most_outliers_pct"]:
        return Verdict(
            "passed",
            f"{share:.1f} % of one rank's {among} are much longer than the median of "
            f"{median:.3g} s: a second mode of the training, not outliers.",
        )
    lost = clamp_seconds(excess, numbers.get("run_seconds") or 0.0)
    return Verdict(
        "fired",
        f"{summary} Beyond what chance gives, they took {excess:.1f} s longer than the median; "
        "waits for data, checkpoints and evaluations are not counted.",
        advice="See what else happens at these times: writing, memory, garbage collection, "
        f"recompilation, other nodes.{load_words(numbers)}",
        claims=(Claim(LABELS, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="medium" if lost > 0.05 * (numbers.get("run_seconds") or 0.0) else "low",
        dedupe_key="step_outlier",
    )


def _among(numbers: Numbers, steps: float) -> str:
    """Say what was judged."""
    period, judged = numbers.get("period_steps") or 1.0, numbers.get("judged_count") or steps
    if period <= 1:
        return f"{steps:.0f} steps"
    return f"{write_count(judged, 'block')} of {period:.0f} steps that end with a long one"


def _count(node: NodeFrame, phases: Phases) -> float:
    """Return the number of steps of the phases that took time."""
    counts = node.step_column("count")[node.once(_is_one_of, phases)]
    return float(np.nan_to_num(counts, copy=False, nan=1.0).sum())


def _is_one_of(node: NodeFrame, phases: Phases) -> Flags:
    """Return for each step whether it took time and is of one of the phases."""
    of_any: Flags = np.logical_or.reduce([node.is_phase(phase) for phase in phases])
    return of_any & node.is_timed


def _is_single(node: NodeFrame, phases: Phases) -> Flags:
    """Return those of `_is_one_of` that were recorded one by one."""
    counts = node.step_column("count")
    is_one: Flags = (counts == 1) | np.isnan(counts)
    return node.once(_is_one_of, phases) & is_one


def _ranks(frame: RunFrame, phases: Phases, values: Values) -> Iterator[_RankOutliers]:
    """Yield the outliers of each rank and phase with enough single steps, in the order in which
    they first appear.
    """
    ranks, seen = _first_seen(frame, phases)
    for node in frame.nodes.values():
        single, rank_of = node.once(_is_single, phases), node.step_ranks
        own_ranks = set(pd.unique(rank_of[single]).tolist())
        for rank in (each for each in ranks if each in own_ranks):
            own = single & (rank_of == rank)
            for phase in seen:
                places = np.flatnonzero(own & node.is_phase(phase))
                if found := _rank(node, frame.duration_seconds, phase, places, values):
                    yield found


def _most_steps(frame: RunFrame, phases: Phases) -> float:
    """Return the number of single steps of the rank and phase that has most, without its first."""
    most = 1
    for node in frame.nodes.values():
        single = node.once(_is_single, phases)
        for phase in phases:
            own = node.step_ranks[single & node.is_phase(phase)]
            most = max(most, *np.unique(own, return_counts=True)[1].tolist(), 1)
    return float(most - 1)


def _first_seen(frame: RunFrame, phases: Phases) -> tuple[list[int], list[str]]:
    """Return the ranks and the phases that have single steps."""
    ranks: dict[int, None] = {}
    seen: dict[str, None] = {}
    for node in frame.nodes.values():
        single = node.once(_is_single, phases)
        ranks |= dict.fromkeys(pd.unique(node.step_ranks[single]).tolist())
        firsts = {p: np.flatnonzero(single & node.is_phase(p))[:1].tolist() for p in phases}
        found = {phase: first for phase, first in firsts.items() if first}
        seen |= dict.fromkeys(sorted(found, key=lambda phase: found[phase]))
    return list(ranks), list(seen)


def _rank(
    node: NodeFrame, end: float, phase: str, places: NDArray[np.int64], values: Values
) -> _RankOutliers | None:
    """Return the outliers among the steps at these places but the first; None if they are too
    few.
    """
    if len(places) - 1 <= values["minimum_steps"]:
        return None
    ordered = places[np.argsort(node.step_column("start_seconds")[places], kind="stable")]
    rest = ordered[1:]
    columns = ("start_seconds", "duration_seconds", "data_wait_seconds")
    starts, lengths, own = (node.step_column(name)[rest] for name in columns)
    # In place: most of a long run's memory is its steps.
    np.subtract(lengths, np.nan_to_num(own, copy=False), out=own)
    own -= _recorded_seconds(node, end, phase, starts, lengths)
    np.maximum(own, _SHORTEST_SECONDS, out=own)
    limit, median, chance = _fence(own, values)
    period, sizes = 1, np.ones(1)
    long = np.flatnonzero(own > limit)
    if (found := _period(long, len(own))) is not None:
        period, ends = found
        firsts = ends[:-1] + 1
        sizes = np.diff(ends).astype(float)
        starts, whole = starts[firsts], slice(0, ends[-1] + 1)
        lengths, own = (np.add.reduceat(each[whole], firsts) for each in (lengths, own))
        limit, median, chance = _fence(own / sizes, values)
    out = own > limit * sizes
    excess = own[out] - median * np.broadcast_to(sizes, own.shape)[out]
    outliers = starts[out], lengths[out], excess
    counts = len(rest), period, len(own)
    return _RankOutliers(node.key, *counts, median, *outliers, chance * len(own))


def _fence(own: Floats, values: Values) -> tuple[float, float, float]:
    """Return the seconds above which a step is an outlier, the median, and the share of noise
    above.
    """
    median, quartile, deviation = _spread(np.log(own))
    fence = quartile + (values["stddev"] - QUARTILE) * deviation
    limit = max(fence, median + math.log1p(values["least_excess_pct"] / 100))
    chance = 0.0
    if deviation > 0:
        chance = math.erfc(((limit - quartile) / deviation + QUARTILE) / math.sqrt(2)) / 2
    return math.exp(limit), math.exp(median), chance


def _period(long: NDArray[np.int64], steps: int) -> tuple[int, NDArray[np.int64]] | None:
    """Return the distance at which long steps come again, and those that have another one there.

    Args:
        long: their places among so many steps, rising.
    """
    neighbours = range(1, FURTHEST_NEIGHBOUR + 1)
    counts = np.bincount(np.concatenate([long[k:] - long[:-k] for k in neighbours]))
    if not len(counts):
        return None
    period = int(counts.argmax())
    ends = long[np.isin(long + period, long) | np.isin(long - period, long)]
    is_common = period > 1 and len(ends) >= PERIODIC_SHARE * len(long)
    by_chance = _pairs_by_chance(int(counts[period]), len(long), steps)
    return (period, ends) if is_common and by_chance < PERIODIC_BY_CHANCE else None


def _pairs_by_chance(pairs: int, long: int, steps: int) -> float:
    """Return a bound on how likely long steps at random places have so many pairs at some one
    distance (Chernoff's bound of a binomial distribution, for each distance).
    """
    expected, found = long / steps, min(pairs / long, 1.0)
    if found <= expected:
        return 1.0
    rest = 0.0 if found == 1.0 else (1 - found) * math.log((1 - found) / (1 - expected))
    return steps * math.exp(-long * (found * math.log(found / expected) + rest))


def _recorded_seconds(
    node: NodeFrame, end: float, phase: str, starts: Floats, lengths: Floats
) -> Floats:
    """Return how much of each step lies in a checkpoint or, of a training step, in an evaluation.

    Evaluations that are recorded as steps are no part of training steps.
    """
    spans = checkpoint_spans(node, end)
    if phase == "train" and "evaluate" not in node.step_phases:
        spans = list(merge_windows([*spans, *phase_spans(node, "evaluate", end)]))
    if not spans:
        return np.zeros(len(starts))
    edges = np.array([[w.start_seconds, w.end_seconds] for w in spans])
    return covered_parts(starts, starts + lengths, edges)


def _spread(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the median, upper quartile, and standard deviation from the quartiles, more if it is
    skewed to the right.
    """
    low, median, high, *grid = np.quantile(values, [0.25, 0.5, 0.75, *_GRID])
    skew = max(_medcouple(np.array(grid), float(median)), 0.0)
    deviation = math.exp(SKEW_FACTOR * skew) * float(high - low) / (2 * QUARTILE)
    return float(median), float(high), deviation


def _medcouple(values: NDArray[np.float64], median: float) -> float:
    """Return the skew, from -1 (to the left) to 1: the median of (above - below) / (above + below)
    over all pairs of distances of a value above and one below from the median.
    """
    above, below = values[values >= median] - median, median - values[values <= median]
    apart = above[:, None] + below[None, :]
    difference = above[:, None] - below[None, :]
    kernel = difference[apart > 0] / apart[apart > 0]
    return float(np.median(kernel)) if len(kernel) else 0.0


def _windows(worst: _RankOutliers) -> tuple[Window, ...]:
    """Return the longest outliers."""
    slowest = np.argsort(-worst.lengths, kind="stable")[:MOST_WINDOWS]
    pairs = zip(worst.starts[slowest], worst.lengths[slowest], strict=True)
    return merge_windows(
        [Window(float(at), float(at + long), worst.node) for at, long in pairs], 0.5
    )


RULE = Rule(
    id="step_outlier",
    title="Step outliers",
    category=STEPS,
    version=5,
    needs=("steps",),
    claims_on=LABELS,
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
        Parameter(
            "most_outliers_pct",
            "%",
            5,
            0,
            100,
            "More slow steps than this are a second mode",
            "ours",
        ),
    ),
    measure=measure,
    judge=judge,
    sagemaker_name="StepOutlier",
)

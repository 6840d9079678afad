"""Durations of a run's steps: statistics of each rank, outliers, and the last steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from advisor.store.step_spread import StepSpread
from webapp.dashboard.report.drawing import (
    HEIGHT,
    WIDTH,
    Histogram,
    Outline,
    histogram,
    outlines,
)
from webapp.dashboard.report.figures import BarPart, parts
from webapp.dashboard.selectors.step_table import MOST_RANKS, TRAIN, WAIT_PERCENTS, sort_spreads
from webapp.templatetags import shown

PERCENTS = (100, 99, 95, 90, 50, 0)
DEVIATIONS = 3.0
"""The deviations above the mean from which a step is an outlier: StepOutlier's default."""
NORMAL_BINS = 40
_US = 1e6


@dataclass(frozen=True)
class StepRow:
    """Steps of one rank and phase, in seconds. `percentiles` are as `PERCENTS`."""

    node: str
    rank: int
    phase: str
    count: int
    mean: float
    percentiles: list[float]
    wait: float | None
    deviation: float
    threshold: float
    """The outliers' limit by SageMaker's definition: longer steps are outliers."""
    outliers: int


@dataclass(frozen=True)
class LastSteps:
    """Last steps of a run. `bars` are x, y, width, height and words of the steps, and `waits` those
    of their waits for data.
    """

    bars: list[tuple[float, float, float, float, str]]
    waits: list[tuple[float, float, float, float]]
    longest: str

    @property
    def count(self) -> int:
        return len(self.bars)


@dataclass(frozen=True)
class StepTimes:
    """Step times of a run; empty if no steps are known. `is_exact` means single steps, not
    summaries.
    """

    rows: list[StepRow] = field(default_factory=list)
    more: int = 0
    """The number of ranks and phases that aren't listed."""
    is_exact: bool = True
    stddev: float = DEVIATIONS
    every: Histogram | None = None
    normal: list[Outline] = field(default_factory=list)
    """The training steps that are no outliers, by node."""
    normal_ends: tuple[str, str] = "", ""
    by_node: list[tuple[str, int]] = field(default_factory=list)
    """The outliers of all ranks and phases."""
    by_phase: list[BarPart] = field(default_factory=list)
    """The time of outliers."""
    waits: Histogram | None = None
    wait_words: str = ""
    last: LastSteps | None = None


def steps_of(
    spreads: Sequence[StepSpread],
    document: Mapping[str, Any] | None,
    last: pa.Table | None,
    names: Mapping[str, str],
    stddev: float | None,
) -> StepTimes:
    """Return the step times.

    Args:
        document: as `step_document`, of the same spreads.
        last: as `step_series.last_steps`.
        names: of nodes, by their keys.
        stddev: a step is an outlier above the mean by so many deviations; None: 3.
    """
    if document is None:
        return StepTimes()
    deviations, ordered = stddev or DEVIATIONS, sort_spreads(spreads)
    rows = [_row(each, names, deviations) for each in ordered]
    normal, ends = _normal(ordered, rows)
    waits, by_node = (
        document["waits"] or {"bins": [], "percentiles": []},
        defaultdict[str, int](int),
    )
    for row in rows:
        by_node[row.node] += row.outliers
    return StepTimes(
        rows=rows[:MOST_RANKS],
        more=max(len(rows) - MOST_RANKS, 0),
        is_exact=document["is_exact"],
        stddev=deviations,
        every=histogram(document["bins"]),
        normal=normal,
        normal_ends=ends,
        by_node=sorted(by_node.items()),
        by_phase=_by_phase(ordered, rows),
        waits=histogram(waits["bins"]),
        wait_words=_wait_words(waits["percentiles"], document["is_exact"]),
        last=_last(last),
    )


def _row(spread: StepSpread, names: Mapping[str, str], deviations: float) -> StepRow:
    mean, weights = spread.mean_seconds, spread.weights
    deviation = float(np.sqrt(np.average((spread.seconds - mean) ** 2, weights=weights)))
    # Because of rounding, the mean of equal durations may be slightly below them.
    threshold = max(mean + deviations * deviation, spread.least_seconds)
    return StepRow(
        node=names.get(spread.node_key, spread.node_key),
        rank=spread.rank,
        phase=spread.phase,
        count=spread.count,
        mean=mean,
        percentiles=[spread.percentile_seconds(percent) for percent in PERCENTS],
        wait=spread.wait_seconds,
        deviation=deviation,
        threshold=threshold,
        outliers=round(float(weights[spread.seconds > threshold].sum())),
    )


def _by_phase(spreads: Sequence[StepSpread], rows: Sequence[StepRow]) -> list[BarPart]:
    seconds = defaultdict[str, float](float)
    for spread, row in zip(spreads, rows, strict=True):
        is_long = spread.seconds > row.threshold
        seconds[row.phase] += float((spread.seconds * spread.weights)[is_long].sum())
    known = {phase: total for phase, total in seconds.items() if total}
    return parts(known, {phase: phase for phase in known})


def _normal(
    spreads: Sequence[StepSpread], rows: Sequence[StepRow]
) -> tuple[list[Outline], tuple[str, str]]:
    """Return histograms by node, and the ends of their scale in words."""
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)
    for spread, row in zip(spreads, rows, strict=True):
        if row.phase == TRAIN:
            is_normal = spread.seconds <= row.threshold
            found[row.node].append((spread.seconds[is_normal], spread.weights[is_normal]))
    known = [seconds for own in found.values() for seconds, _ in own if len(seconds)]
    if not known:
        return [], ("", "")
    ends = min(float(each[0]) for each in known), max(float(each[-1]) for each in known)
    edges = np.linspace(ends[0], max(ends[1], ends[0] * 1.01 + 1e-6), NORMAL_BINS + 1)
    counts = {node: _counts(own, edges) for node, own in sorted(found.items())}
    return outlines(counts), (shown.seconds(float(edges[0])), shown.seconds(float(edges[-1])))


def _counts(of: Sequence[tuple[np.ndarray, np.ndarray]], edges: np.ndarray) -> np.ndarray:
    each = [np.histogram(seconds, edges, weights=weights)[0] for seconds, weights in of]
    return np.asarray(np.sum(each, axis=0))


def _wait_words(percentiles: Sequence[float], is_exact: bool) -> str:
    """Return the waits in words. Of summaries only the means of waits are known, which say nothing
    about the longest.
    """
    if not percentiles:
        return ""
    of = dict(zip(WAIT_PERCENTS, map(shown.seconds, percentiles), strict=True))
    words = f"median {of[50]}, p25 {of[25]}"
    return f"{words}, p95 {of[95]}, p99 {of[99]}" if is_exact else f"{words}, from summaries"


def _last(steps: pa.Table | None) -> LastSteps | None:
    if steps is None or not len(steps):
        return None
    seconds = steps["duration_us"].to_numpy() / _US
    waits = np.nan_to_num(steps["data_wait_us"].to_numpy().astype(np.float64)) / _US
    top, width = max(float(seconds.max()), 1e-9), WIDTH / len(seconds)
    bars, waited = [], []
    for place, (length, wait) in enumerate(zip(seconds.tolist(), waits.tolist(), strict=True)):
        x, high, low = round(place * width + 1, 1), HEIGHT * length / top, HEIGHT * wait / top
        wide = round(width - 2, 1)
        bars.append((x, round(HEIGHT - high, 1), wide, round(high, 1), shown.seconds(length)))
        if wait:
            waited.append((x, round(HEIGHT - low, 1), wide, round(low, 1)))
    return LastSteps(bars, waited, shown.seconds(top))

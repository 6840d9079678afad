"""Step times of a run as a histogram and as percentiles by rank and phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from advisor.store.step_spread import StepSpread

PERCENTS = (50, 90, 99)
WAIT_PERCENTS = (25, 50, 95, 99)
MOST_RANKS = 256
DIGITS = 4
TRAIN = "train"
BINS, LONGEST, LEAST_WIDTH, LEAST_SECONDS = 30, 99.5, 0.01, 1e-4
"""The number of a histogram's bins, the percentile at which it ends, and its least width, relative
to the shortest and absolute."""


def step_document(spreads: Sequence[StepSpread]) -> dict[str, Any] | None:
    """Return `{bins: [[from, to, count]], ranks: [...], waits: {...}, is_exact}` in seconds, or
    None without a step. Bins and waits are of training steps of all ranks, ranks in order of phase
    (training first) and mean, slowest first. `is_exact` means single steps, not summaries.
    """
    if not spreads:
        return None
    ordered = sort_spreads(spreads)
    trained = [each for each in spreads if each.phase == TRAIN]
    return {
        "bins": _bins(
            *_joined(trained, "seconds", "weights"),
            max((each.percentile_seconds(LONGEST) for each in trained), default=0.0),
        ),
        "ranks": [rank_document(each) for each in ordered[:MOST_RANKS]],
        "waits": _waits(*_joined(trained, "waits", "wait_weights")),
        "is_exact": all(each.is_exact for each in spreads),
    }


def sort_spreads(spreads: Sequence[StepSpread]) -> list[StepSpread]:
    """Sort by phase, training first, and the slowest first."""
    return sorted(spreads, key=lambda s: (s.phase != TRAIN, s.phase, -s.mean_seconds, s.rank))


def rank_document(each: StepSpread) -> dict[str, Any]:
    return {
        "node": each.node_key,
        "rank": each.rank,
        "phase": each.phase,
        "count": each.count,
        "mean": _rounded(each.mean_seconds),
        "percentiles": [_rounded(each.percentile_seconds(percent)) for percent in PERCENTS],
        "shortest": _rounded(each.percentile_seconds(0)),
        "p95": _rounded(each.percentile_seconds(95)),
        "longest": _rounded(each.percentile_seconds(100)),
        "wait": None if each.wait_seconds is None else _rounded(each.wait_seconds),
    }


def _joined(
    spreads: Sequence[StepSpread], values: str, weights: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return two attributes of all spreads, one after the other."""
    first, second = (
        np.concatenate([[], *(getattr(each, name) for each in spreads)])
        for name in (values, weights)
    )
    return first, second


def _waits(seconds: np.ndarray, weights: np.ndarray) -> dict[str, Any] | None:
    """Return how long training steps waited for data; None if unknown."""
    if not len(seconds):
        return None
    percentiles = [_rounded(_percentile(seconds, weights, each)) for each in WAIT_PERCENTS]
    longest = _percentile(seconds, weights, LONGEST)
    return {"bins": _bins(seconds, weights, longest), "percentiles": percentiles}


def _bins(seconds: np.ndarray, weights: np.ndarray, longest: float) -> list[list[float]]:
    """Return bins of equal width, up to `longest`; what is longer counts in the last one."""
    if not len(seconds):
        return []
    low = float(seconds.min())
    high = max(longest, low * (1 + LEAST_WIDTH), low + LEAST_SECONDS)
    edges = np.linspace(low, high, BINS + 1)
    counts, _ = np.histogram(np.minimum(seconds, high), edges, weights=weights)
    return [
        [_rounded(start), _rounded(end), round(float(count))]
        for start, end, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]


def _percentile(values: np.ndarray, weights: np.ndarray, percent: float) -> float:
    if (weights == 1).all():
        return float(np.percentile(values, percent))
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weights[order])
    place = int(np.searchsorted(ends, percent / 100 * ends[-1] - 1e-9))
    return float(values[order][min(place, len(values) - 1)])


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.{DIGITS}g}")

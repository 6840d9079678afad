"""Step times of a run as a histogram and as percentiles by rank and phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from advisor.store.step_spread import StepSpread

PERCENTS = (50, 90, 99)
MOST_RANKS = 256
DIGITS = 4
TRAIN = "train"
BINS, LONGEST, LEAST_WIDTH = 30, 99.5, 0.01
"""Of the histogram: their number, the percentile at which it ends, and its least width relative to
the shortest step."""


def step_document(spreads: Sequence[StepSpread]) -> dict[str, Any] | None:
    """`{bins: [[from, to, count]], ranks: [...]}` in seconds; bins of training steps of all ranks,
    ranks in order of phase (training first) and mean, slowest first. None: no step."""
    if not spreads:
        return None
    ordered = sorted(spreads, key=lambda s: (s.phase != TRAIN, s.phase, -s.mean_seconds, s.rank))
    return {
        "bins": _bins([each for each in spreads if each.phase == TRAIN]),
        "ranks": [_rank(each) for each in ordered[:MOST_RANKS]],
    }


def _rank(each: StepSpread) -> dict[str, Any]:
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


def _bins(spreads: Sequence[StepSpread]) -> list[list[float]]:
    """Of equal width, up to the percentile `LONGEST`; longer steps count in the last one."""
    if not spreads:
        return []
    seconds = np.concatenate([each.seconds for each in spreads])
    weights = np.concatenate([each.weights for each in spreads])
    low = float(seconds.min())
    high = max(max(each.percentile_seconds(LONGEST) for each in spreads), low * (1 + LEAST_WIDTH))
    edges = np.linspace(low, high, BINS + 1)
    counts, _ = np.histogram(np.minimum(seconds, high), edges, weights=weights)
    return [
        [_rounded(start), _rounded(end), round(float(count))]
        for start, end, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.{DIGITS}g}")

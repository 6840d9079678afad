"""Compares a run with the comparable runs before it. Their number decides how.

| runs before | result |
|---|---|
| 0 | the baseline is recorded |
| 1, 2 | the difference, with the caveat that the noise is unknown |
| 3 to 9 | outside of the prediction interval of the runs before, and by at least 5 % |
| 10 and more | that, and change points (`change_points`) |

The replicate is the run, not the step: steps of one run are correlated, and two identical runs
differ "significantly" in their steps nine times out of ten. All calculations use the logarithm of
the cost per unit of work, so a change is a ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

BASELINE, CAVEAT, INTERVAL, CHANGE_POINTS = "baseline", "caveat", "interval", "change_points"
LEAST_FOR_INTERVAL, LEAST_FOR_CHANGE_POINTS = 3, 10
CONFIDENCE = 0.975
"""Of each side: one in forty would be outside by chance, without the 5 % threshold."""
GATE = 0.05
"""A smaller change isn't worth the time, however certain it is."""
POWER = 0.8
"""The smallest detectable change is detected in four of five cases."""
BETTER, WORSE, SAME = "better", "worse", "same"


@dataclass(frozen=True)
class BaselineComparison:
    """A run compared with those before it. Values are in the given unit (not logs).

    `low`, `high`: the expected range; None on the first rungs. `change` is the ratio to the
    baseline minus 1. `detects`: the smallest detectable change, as a ratio minus 1; None: none yet.
    """

    rung: str
    direction: str
    baseline_runs: int
    change: float | None = None
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    detects: float | None = None

    @property
    def is_significant(self) -> bool:
        return self.direction != SAME


def compare_to_baseline(baseline: Sequence[float], value: float) -> BaselineComparison:
    """`value` against the values before it, all above 0, in the same unit."""
    count = len(baseline)
    if count == 0:
        return BaselineComparison(BASELINE, SAME, 0)
    logs = np.log(np.asarray(baseline, dtype=float))
    mean = float(logs.mean())
    change = math.log(value) - mean
    if count < LEAST_FOR_INTERVAL:
        return BaselineComparison(CAVEAT, SAME, count, math.expm1(change), math.exp(mean))
    spread = float(logs.std(ddof=1)) * math.sqrt(1 + 1 / count)
    margin = _quantile(CONFIDENCE, count - 1) * spread
    least = max(margin, math.log1p(GATE))
    return BaselineComparison(
        rung=INTERVAL if count < LEAST_FOR_CHANGE_POINTS else CHANGE_POINTS,
        direction=_direction(change, least),
        baseline_runs=count,
        change=math.expm1(change),
        expected=math.exp(mean),
        low=math.exp(mean - margin),
        high=math.exp(mean + margin),
        detects=math.expm1(least + _quantile(POWER, count - 1) * spread),
    )


def _direction(change: float, least: float) -> str:
    """An improvement must be as large as a regression, as a ratio."""
    if change >= least:
        return WORSE
    return BETTER if change <= -least else SAME


@cache
def _quantile(probability: float, freedom: int) -> float:
    """Of Student's t."""
    # Imported here, because it would delay the start of every process by 0.4 s.
    from scipy import special

    return float(special.stdtrit(freedom, probability))

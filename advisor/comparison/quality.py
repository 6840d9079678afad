"""Whether a run's results are worse than another's, so that no saving is claimed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rules.metric_direction import less_is_better

WORSE_RATIO = 0.05
"""Share of the value. Smaller changes can come from a seed."""
WORSE_POINTS = 0.01
"""For a share that should be near 1, such as an accuracy, in which one point matters."""


@dataclass(frozen=True)
class Worse:
    """A user metric with a worse last value in `b`."""

    name: str
    a: float
    b: float

    def __str__(self) -> str:
        return f"{self.name} was {self.b:.4g} instead of {self.a:.4g}"


def worse_in_b(a: Mapping[str, float] | None, b: Mapping[str, float] | None) -> tuple[Worse, ...]:
    """The common metrics with a known direction that are worse in `b`."""
    both = sorted({*(a or {})} & {*(b or {})})
    candidates = (Worse(name, (a or {})[name], (b or {})[name]) for name in both)
    return tuple(each for each in candidates if _is_worse(each))


def _is_worse(metric: Worse) -> bool:
    is_less_better = less_is_better(metric.name)
    if is_less_better is None or not (math.isfinite(metric.a) and math.isfinite(metric.b)):
        return False
    loss = metric.b - metric.a if is_less_better else metric.a - metric.b
    is_share = not is_less_better and 0 <= min(metric.a, metric.b) <= max(metric.a, metric.b) <= 1
    return loss > (WORSE_POINTS if is_share else WORSE_RATIO * abs(metric.a))

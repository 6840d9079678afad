"""Decides whether a run's results are worse than another's, so that no saving is claimed.

A metric is worse if its last value changed for the worse by more than is tolerated: what people set
for the job, else the noise of earlier runs, else `WORSE_RATIO` or one point. Of a metric whose
better direction isn't known, any change beyond the noise may be for the worse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from advisor.comparison.job_metrics import USUAL, JobMetrics
from rules.metric_direction import is_share

WORSE_RATIO = 0.05
"""Share of the value. Smaller changes can come from a seed."""
POINT = 0.01
"""One point of a share from 0 to 1, such as an accuracy; of one in percent it is 1. One point
matters near the end of the scale."""
LEAST_RUNS = 5
"""The fewest earlier runs by which the noise is known."""
LEAST_NOISE = 0.001
"""Share of the value: a job that repeats exactly may still differ in the last digits."""
_SIGMAS, _MAD_TO_SIGMA = 3.0, 1.4826
"""Three standard deviations, estimated by the median absolute deviation, which outliers don't
move (Rousseeuw, Croux, "Alternatives to the median absolute deviation", JASA 88, 1993)."""


@dataclass(frozen=True)
class MetricChange:
    """The last values of a user metric that both runs have."""

    name: str
    a: float
    b: float

    def __str__(self) -> str:
        return f"{self.name} was {self.b:.4g} instead of {self.a:.4g}"

    @property
    def change(self) -> float:
        return self.b - self.a

    @property
    def is_in_unit_range(self) -> bool:
        return 0 <= min(self.a, self.b) <= max(self.a, self.b) <= 1

    @property
    def point(self) -> float:
        return POINT if self.is_in_unit_range else 1.0


@dataclass(frozen=True)
class Quality:
    """The reasons why no saving can be claimed; empty if nothing is known to be worse."""

    worse: tuple[MetricChange, ...] = ()
    unclear: tuple[MetricChange, ...] = ()
    """The metrics that moved, and whose better direction isn't known."""

    def __bool__(self) -> bool:
        return bool(self.worse or self.unclear)


def quality_of_b(
    a: Mapping[str, float] | None, b: Mapping[str, float] | None, job: JobMetrics = USUAL
) -> Quality:
    """Return the common metrics that are worse in `b`, or that moved in an unknown direction."""
    both = sorted({*(a or {})} & {*(b or {})})
    moved = [MetricChange(name, (a or {})[name], (b or {})[name]) for name in both]
    known = [m for m in moved if math.isfinite(m.a) and math.isfinite(m.b)]
    return Quality(
        tuple(m for m in known if _is_worse(m, job)),
        tuple(m for m in known if _is_unclear(m, job)),
    )


def noise(values: Iterable[float]) -> float | None:
    """Return the largest usual change of a metric between alike runs; None for too few runs."""
    known = [value for value in values if math.isfinite(value)]
    if len(known) < LEAST_RUNS:
        return None
    middle = median(known)
    spread = _SIGMAS * _MAD_TO_SIGMA * median(abs(value - middle) for value in known)
    return max(spread, LEAST_NOISE * abs(middle))


def noise_of(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return metric -> its noise in these runs, for those that are in enough of them."""
    names = {name for run in runs for name in run}
    each = {name: noise(run[name] for run in runs if name in run) for name in sorted(names)}
    return {name: value for name, value in each.items() if value is not None}


def _is_worse(moved: MetricChange, job: JobMetrics) -> bool:
    is_less_better = job.less_is_better(moved.name)
    if is_less_better is None:
        return False
    loss = moved.change if is_less_better else -moved.change
    return _is_more(loss, _tolerated(moved, job, is_less_better=is_less_better))


def _is_unclear(moved: MetricChange, job: JobMetrics) -> bool:
    if job.less_is_better(moved.name) is not None or not job.is_quality(moved.name):
        return False
    return _is_more(abs(moved.change), _tolerated(moved, job, is_less_better=None))


def _is_more(change: float, tolerated: float) -> bool:
    """Return whether the change is more than tolerated. 0.95 - 0.94 is one point, whatever its last
    binary digit says.
    """
    return change > tolerated and not math.isclose(change, tolerated, rel_tol=1e-9)


def _tolerated(moved: MetricChange, job: JobMetrics, *, is_less_better: bool | None) -> float:
    setting = job.settings.get(moved.name)
    if setting is not None and setting.tolerated_loss is not None:
        if setting.unit == "points":
            return setting.tolerated_loss * moved.point
        return setting.tolerated_loss / 100 * abs(moved.a)
    if moved.name in job.noise:
        return job.noise[moved.name]
    ratio = WORSE_RATIO * abs(moved.a)
    if is_less_better:
        return ratio
    if is_less_better is None:
        return min(ratio, POINT) if moved.is_in_unit_range else ratio
    is_percent = is_share(moved.name) and 0 <= min(moved.a, moved.b) <= max(moved.a, moved.b) <= 100
    return moved.point if moved.is_in_unit_range or is_percent else ratio

"""The curves of a training's metrics over all of its runs, and what it cost to reach a value."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.comparison.job_metrics import JobMetrics, from_document
from advisor.costing.training import Attempt
from advisor.costing.training_metrics import MetricCurve, NewBest, curves
from webapp.analysis.trainings.times import unix_us
from webapp.runs.models import Run

WIDTH, HEIGHT, EDGE = 120.0, 28.0, 3.0


@dataclass(frozen=True)
class DrawnCurve:
    """Curve with its `points` in a box of 120 x 28: over time, each new best value at its
    height.
    """

    curve: MetricCurve
    points: str


@dataclass(frozen=True)
class CostToReach:
    """The cost to reach a value of a metric."""

    curve: MetricCurve
    target: float
    reached: NewBest | None
    """The point that reached the value; None if it wasn't reached."""


def curves_of(runs: Sequence[Run], attempts: Sequence[Attempt]) -> list[MetricCurve]:
    """Return the metrics' curves. Steps that were repeated don't count: what they reached was given
    up. The directions are those of the last run's job.
    """
    told: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for run in runs:
        if run.started_at is not None:
            began = unix_us(run.started_at)
            for name, points in run.metric_progress.items():
                told[name] += [(began + round(at * 1e6), value) for at, value in points]
    settings = JobMetrics(from_document(runs[-1].job.metrics), {})
    return curves(attempts, told, settings.less_is_better)


def draw_curves(found: Sequence[MetricCurve]) -> list[DrawnCurve]:
    return [DrawnCurve(curve, _points(curve)) for curve in found]


def cost_to_reach(found: Sequence[MetricCurve], name: str, value: str) -> CostToReach | None:
    """Return the cost to reach the value; None if there is no such metric, or the value is no
    number.
    """
    curve = next((each for each in found if each.name == name), None)
    try:
        target = float(value)
    except ValueError:
        return None
    if curve is None or not math.isfinite(target):
        return None
    return CostToReach(curve, target, curve.first_reaching(target))


def _points(curve: MetricCurve) -> str:
    values = [each.value for each in curve.points]
    low, high = min(values), max(values)
    last = curve.best.seconds or 1.0
    corners: list[tuple[float, float]] = []
    for each in curve.points:
        x = EDGE + (WIDTH - 2 * EDGE) * each.seconds / last
        y = HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (each.value - low) / ((high - low) or 1.0)
        corners += [(x, corners[-1][1])] if corners else []
        corners.append((x, y))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)

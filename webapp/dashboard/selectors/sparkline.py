"""A trend as the points of an SVG path, drawn on the server without a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, EDGE = 120.0, 28.0, 3.0


@dataclass(frozen=True)
class Sparkline:
    """`points` in a box of 120 x 28; `end` is the last of them."""

    points: str
    end_x: float
    end_y: float
    summary: str


def sparkline(values: Sequence[float], unit: str = "$") -> Sparkline | None:
    """None for fewer than two values. The scale always starts at zero."""
    if len(values) < 2:
        return None
    top = max(values) or 1.0
    step = (WIDTH - 2 * EDGE) / (len(values) - 1)
    places = [
        (EDGE + i * step, HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * value / top)
        for i, value in enumerate(values)
    ]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    summary = (
        f"cost of the last {len(values)} runs, from {unit}{values[0]:.4g} to {unit}{values[-1]:.4g}"
    )
    return Sparkline(points, round(places[-1][0], 1), round(places[-1][1], 1), summary)

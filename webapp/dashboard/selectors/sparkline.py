"""A trend as the points of an SVG path, drawn on the server without a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from advisor.money import display_usd

WIDTH, HEIGHT, EDGE = 120.0, 28.0, 3.0


@dataclass(frozen=True)
class Sparkline:
    """`points` in a box of 120 x 28; `end` is the last of them."""

    points: str
    end_x: float
    end_y: float
    summary: str


def sparkline(usd: Sequence[float], per: str = "run") -> Sparkline | None:
    """Of the cost per `per`; None for fewer than two values. The scale always starts at zero."""
    if len(usd) < 2:
        return None
    top = max(usd) or 1.0
    step = (WIDTH - 2 * EDGE) / (len(usd) - 1)
    places = [
        (EDGE + i * step, HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * value / top)
        for i, value in enumerate(usd)
    ]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    first, last = (display_usd(Decimal(value)) for value in (usd[0], usd[-1]))
    summary = f"cost per {per} of the last {len(usd)} runs, from {first} to {last}"
    return Sparkline(points, round(places[-1][0], 1), round(places[-1][1], 1), summary)

"""A trend as the points of an SVG path, drawn on the server without a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from advisor.money import display_usd

WIDTH, HEIGHT, EDGE = 120.0, 28.0, 3.0
LEAST_ROOM = 0.15
"""The least share of the median that the scale reaches above and below: noise looks small."""


@dataclass(frozen=True)
class Sparkline:
    """Trend with its `points` in a box of 120 x 28; `end` is the last of them. `per` is the run or
    unit of work.
    """

    points: str
    end_x: float
    end_y: float
    per: str
    summary: str


def sparkline(usd: Sequence[float], per: str = "run") -> Sparkline | None:
    """Return the sparkline of the cost per `per`; None for fewer than two values."""
    if len(usd) < 2:
        return None
    bottom, top = _scale(usd)
    step = (WIDTH - 2 * EDGE) / (len(usd) - 1)
    places = [
        (EDGE + i * step, HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (value - bottom) / (top - bottom))
        for i, value in enumerate(usd)
    ]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    first, last = (display_usd(Decimal(value)) for value in (usd[0], usd[-1]))
    summary = f"cost per {per} of the last {len(usd)} runs, from {first} to {last}"
    return Sparkline(points, round(places[-1][0], 1), round(places[-1][1], 1), per, summary)


def _scale(usd: Sequence[float]) -> tuple[float, float]:
    """Return the values at the bottom and top of the box."""
    usual = median(usd)
    room = LEAST_ROOM * usual
    bottom, top = min(*usd, usual - room), max(*usd, usual + room)
    return (bottom, top) if bottom < top else (bottom, bottom + 1.0)

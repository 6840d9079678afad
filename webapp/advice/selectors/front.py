"""Time against cost of a run on other machines, as the places of marks in an SVG drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from advisor.sizing.candidates import Candidate

MOST_POINTS = 40
AXIS_SECONDS = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40),
    *(60 * minutes for minutes in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40)),
    *(3600 * hours for hours in (1, 1.5, 2, 3, 4, 5, 6, 8, 12, 16, 20)),
    *(86_400 * days for days in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 60, 100)),
)
AXIS_USD = tuple(map(Decimal, ("1", "1.2", "1.6", "2", "2.4", "3", "4", "5", "6", "8", "10")))
"""The ends of the axis of money, times a power of ten: the marks reach most of the way."""
SHAPES = {"measured": "square", "same": "circle"}
"""The shape of a mark by how the speed is known; others are a diamond."""


@dataclass(frozen=True)
class FrontPoint:
    """The middle estimate, in percent of the drawing from its left and top; `low` and `high` are
    the ends of its interval: who takes longer pays longer. `kind`: `chosen`, `present`, `front` or
    `other`, which is drawn without an interval."""

    candidate: Candidate
    kind: str
    shape: str
    x: float
    y: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float


@dataclass(frozen=True)
class Drawing:
    points: list[FrontPoint]
    """The points, those behind first."""
    front: list[tuple[float, float, float, float]]
    """The lines between those than which none is both faster and cheaper."""
    longest_seconds: float
    top_usd: Decimal

    @property
    def middle_usd(self) -> Decimal:
        return self.top_usd / 2

    @property
    def middle_seconds(self) -> float:
        return self.longest_seconds / 2

    @property
    def shapes(self) -> set[str]:
        return {point.shape for point in self.points}


def drawing(
    table: Iterable[Candidate],
    front: Sequence[Candidate],
    chosen: Candidate | None,
    present: Candidate | None,
    rung: Callable[[Candidate], str],
) -> Drawing | None:
    """Return the drawing, or None if no candidate has a price. The axes begin at 0, and end beyond
    the answer, the run's own machines and the front; wide intervals are cut there, so that the
    points stay apart.

    Args:
        rung: how the speed of a candidate is known.
    """
    marked = [each for each in (chosen, present) if each is not None]
    others = [each for each in table if not each.rejected_because][:MOST_POINTS]
    shown = list({id(each): each for each in [*others, *front, *marked]}.values())
    shown = [each for each in shown if each.cost_mid_usd is not None]
    if not shown:
        return None
    ids = {"front": {id(each) for each in front}, "chosen": {id(chosen)}, "present": {id(present)}}
    known = [each for each in shown if _kind(each, ids) != "other"] or shown
    longest = _round_seconds(max(each.time_mid_seconds for each in known))
    top = _round_usd(max(_usd(each) for each in known))
    scale = _Scale(longest, float(top))
    points = [
        scale.point(each, _kind(each, ids), SHAPES.get(rung(each), "diamond"))
        for each in shown
        if each.time_mid_seconds <= longest and _usd(each) <= top
    ]
    order = ("other", "front", "present", "chosen")
    points.sort(key=lambda point: order.index(point.kind))
    places = sorted((p.x, p.y) for p in points if id(p.candidate) in ids["front"])
    return Drawing(points, [(*a, *b) for a, b in pairwise(places)], longest, top)


def _usd(each: Candidate) -> Decimal:
    return each.cost_mid_usd or Decimal(0)


def _round_seconds(seconds: float) -> float:
    return next((each for each in AXIS_SECONDS if each >= seconds), seconds)


def _round_usd(usd: Decimal) -> Decimal:
    scale = Decimal(1).scaleb(usd.adjusted()) if usd else Decimal(1)
    return next(step * scale for step in AXIS_USD if step * scale >= usd)


def _kind(each: Candidate, ids: dict[str, set[int]]) -> str:
    return next((kind for kind in ("chosen", "present", "front") if id(each) in ids[kind]), "other")


def _inside(x: float, y: float, x_high: float, y_high: float) -> float:
    """Return the share of the line from a point to the end of its interval that is within the
    axes.
    """
    across = (100 - x) / (x_high - x) if x_high > 100 else 1.0
    return min(across, y / (y - y_high) if y_high < 0 else 1.0)


@dataclass(frozen=True)
class _Scale:
    seconds: float
    usd: float

    def point(self, each: Candidate, kind: str, shape: str) -> FrontPoint:
        x, y = self._across(each.time_mid_seconds), self._down(each.cost_mid_usd)
        x_high, y_high = self._across(each.time_high_seconds), self._down(each.cost_high_usd)
        inside = _inside(x, y, x_high, y_high)
        return FrontPoint(
            candidate=each,
            kind=kind,
            shape=shape,
            x=x,
            y=y,
            x_low=self._across(each.time_low_seconds),
            x_high=round(x + inside * (x_high - x), 2),
            y_low=self._down(each.cost_low_usd),
            y_high=round(y + inside * (y_high - y), 2),
        )

    def _across(self, seconds: float) -> float:
        return round(100 * seconds / (self.seconds or 1.0), 2)

    def _down(self, usd: Decimal | None) -> float:
        return round(100 - 100 * float(usd or 0) / (self.usd or 1.0), 2)

"""Time against cost of a run on other machines, as the points of an SVG drawing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from advisor.sizing.candidates import Candidate

WIDTH, HEIGHT, EDGE = 1000.0, 320.0, 14.0
MOST_POINTS = 40
ROOM = 1.25
"""The axes end a quarter beyond the answer, the run's own machines and the front."""


@dataclass(frozen=True)
class Point:
    """The middle estimate; `low` and `high` are the ends of its intervals. `kind`: `chosen`,
    `present`, `front` or `other`, which is drawn without intervals."""

    candidate: Candidate
    kind: str
    x: float
    y: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float


@dataclass(frozen=True)
class Drawing:
    points: list[Point]
    """Those behind first."""
    front: str
    """A line through those than which none is both faster and cheaper."""
    longest_seconds: float
    dearest_usd: float


def drawing(
    table: Iterable[Candidate],
    front: Sequence[Candidate],
    chosen: Candidate | None,
    present: Candidate | None,
) -> Drawing | None:
    """None: none has a price. The axes begin at 0."""
    marked = [each for each in (chosen, present) if each is not None]
    others = [each for each in table if not each.rejected_because][:MOST_POINTS]
    shown = list({id(each): each for each in [*others, *front, *marked]}.values())
    shown = [each for each in shown if each.cost_mid_usd is not None]
    if not shown:
        return None
    ids = {"front": {id(each) for each in front}, "chosen": {id(chosen)}, "present": {id(present)}}
    known = [each for each in shown if _kind(each, ids) != "other"] or shown
    longest = max(each.time_high_seconds for each in known) * ROOM
    dearest = max(float(each.cost_high_usd or 0) for each in known) * ROOM
    shown = [each for each in shown if _is_within(each, longest, dearest)]
    points = [_point(each, _kind(each, ids), longest, dearest) for each in shown]
    order = ("other", "front", "present", "chosen")
    points.sort(key=lambda point: order.index(point.kind))
    line = sorted((p.x, p.y) for p in points if id(p.candidate) in ids["front"])
    return Drawing(points, " ".join(f"{x},{y}" for x, y in line), longest, dearest)


def _is_within(each: Candidate, longest: float, dearest: float) -> bool:
    return each.time_mid_seconds <= longest and float(each.cost_mid_usd or 0) <= dearest


def _kind(each: Candidate, ids: dict[str, set[int]]) -> str:
    return next((kind for kind in ("chosen", "present", "front") if id(each) in ids[kind]), "other")


def _point(each: Candidate, kind: str, longest: float, dearest: float) -> Point:
    def across(seconds: float) -> float:
        return round(EDGE + (WIDTH - 2 * EDGE) * seconds / (longest or 1.0), 1)

    def up(usd: object) -> float:
        share = float(str(usd or 0)) / (dearest or 1.0)
        return round(HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * share, 1)

    return Point(
        candidate=each,
        kind=kind,
        x=across(each.time_mid_seconds),
        y=up(each.cost_mid_usd),
        x_low=across(each.time_low_seconds),
        x_high=across(each.time_high_seconds),
        y_low=up(each.cost_low_usd),
        y_high=up(each.cost_high_usd),
    )

"""A job's cost over its runs: levels, what was expected, and what changed at which run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from statistics import median
from typing import Any

from django.urls import reverse
from django.utils import timezone

from advisor.comparison.startup import growing_share
from advisor.money import display_usd
from webapp.analysis.models import Regression
from webapp.analysis.selectors.verdict import RunVerdict, verdict_of
from webapp.analysis.selectors.work import WorkUnit
from webapp.dashboard.selectors.history_marks import Mark, changes
from webapp.runs.models import Run

RANGES = {"30": timedelta(days=30), "90": timedelta(days=90)}
CLEARED = "cleared"


@dataclass(frozen=True)
class Point:
    """Run in the chart. `usd` is its cost per unit of work, or of the whole run if no unit is
    common; `low` to `high` is what was expected of it. None means no price, or unknown.
    """

    run: Run
    verdict: RunVerdict | None
    usd: float | None
    expected: float | None
    low: float | None
    high: float | None
    is_in_open_regression: bool
    marks: tuple[Mark, ...]

    def document(self) -> dict[str, Any]:
        """Return the point for the browser."""
        run, verdict = self.run, self.verdict
        return {
            "number": run.number,
            "date": f"{run.began_at:%Y-%m-%d}",
            "state": run.get_state_display(),
            "is_judged": verdict is not None,
            "is_open": self.is_in_open_regression,
            "usd": self.usd,
            "run_usd": None if run.cost_usd is None else float(run.cost_usd),
            "expected": self.expected,
            "low": self.low,
            "high": self.high,
            "verdict": verdict.title if verdict else "",
            "moved": [*verdict.causes, *verdict.beside] if verdict else [],
            "marks": [{"kind": mark.kind, "words": mark.words} for mark in self.marks],
            "phases": {name: float(usd) for name, usd in run.summary.phase_usd.items()},
            "address": reverse("dashboard:run", args=[run.pk]),
        }


@dataclass(frozen=True)
class Level:
    """Runs in a row, of the same work and configuration, that cost the same apart from noise."""

    numbers: tuple[int, ...]
    usd: Decimal | None
    """The median cost; None if no run has a price."""
    change: float | None
    """The change from the level before it, as a ratio minus 1."""
    is_open_regression: bool
    began_with: str

    def document(self) -> dict[str, Any]:
        """Return the level for the browser."""
        return {
            "numbers": self.numbers,
            "usd": None if self.usd is None else float(self.usd),
            "is_open": self.is_open_regression,
        }

    @property
    def first(self) -> int:
        return self.numbers[0]

    @property
    def last(self) -> int:
        return self.numbers[-1]


@dataclass(frozen=True)
class History:
    """The runs of the chosen range, oldest first, and those that are left out on either side."""

    points: list[Point]
    unit: WorkUnit | None
    range: str
    is_full: bool
    """True if there may be earlier runs, which have a chart of their own."""

    @cached_property
    def levels(self) -> list[Level]:
        """The newest first."""
        return _levels(self.points)[::-1]

    @property
    def marked(self) -> list[Point]:
        """Runs at which something changed, the newest first."""
        return [point for point in reversed(self.points) if point.marks]

    @property
    def oldest(self) -> Run:
        return self.points[0].run

    @property
    def per(self) -> str:
        """Return the unit that the cost refers to."""
        return str(self.unit) if self.unit else "run"

    def chart(self) -> dict[str, Any]:
        """Return the chart for the browser; None stays None, so that a run without a price has no
        point.
        """
        return {
            "per": self.per,
            "points": [point.document() for point in self.points],
            "levels": [level.document() for level in self.levels if level.usd is not None],
        }

    @property
    def sentence(self) -> str:
        """The chart in words."""
        priced = [point for point in self.points if point.usd is not None]
        if not priced:
            return "No run here has a price."
        first, last = priced[0], priced[-1]
        words = (
            f"Cost per {self.per} of {len(priced)} run{'s' if len(priced) > 1 else ''}, "
            f"{_usd(first.usd)} at #{first.run.number} to {_usd(last.usd)} at #{last.run.number}"
        )
        number = len(self.levels)
        return f"{words}, {number} level{'s' if number != 1 else ''}."


def history(
    runs: Sequence[Run],
    unit: WorkUnit | None,
    regressions: Iterable[Regression],
    followed: Mapping[int, str],
    *,
    wanted: str,
    is_full: bool,
) -> History:
    """Return the history of a job's runs, oldest first.

    Args:
        followed: number of a run -> the advice that it was the first to follow, in words.
        wanted: one of RANGES for the days until now, `until` for runs that end before the newest,
            else everything.
        is_full: there may be earlier runs.
    """
    since = timezone.now() - RANGES[wanted] if wanted in RANGES else None
    shown = [run for run in runs if since is None or run.began_at >= since]
    spans = [(row.since.began_at, row.last.began_at) for row in regressions]
    found = changes(runs, followed)
    points = [_point(run, unit, spans, found.get(run.number, ())) for run in shown]
    return History(points, unit, wanted, is_full=is_full and len(shown) == len(runs))


def _point(
    run: Run,
    unit: WorkUnit | None,
    spans: Sequence[tuple[datetime, datetime]],
    marks: Sequence[Mark],
) -> Point:
    cost = unit.cost_usd(run) if unit else run.cost_usd
    usd = None if cost is None else float(cost)
    verdict = verdict_of(run)
    is_open = verdict is not None and any(low <= run.began_at <= high for low, high in spans)
    expected, low, high = _expected(run, usd)
    return Point(run, verdict, usd, expected, low, high, is_open, tuple(marks))


def _expected(run: Run, usd: float | None) -> tuple[float | None, float | None, float | None]:
    """Return the cost at the expected machine time and at both ends of its range: only the judged
    part of the cost, that of the training loop, differs.
    """
    stored = run.summary.verdict
    if usd is None or stored is None or stored.change is None or not stored.expected_seconds:
        return None, None, None
    length = run.duration.total_seconds() if run.duration else 0.0
    share = (growing_share(run.summary.phase_seconds, length) if length else None) or 1.0
    measured = stored.expected_seconds * (1 + stored.change)

    def at(seconds: float | None) -> float | None:
        return None if seconds is None else usd * (1 - share + share * seconds / measured)

    return at(stored.expected_seconds), at(stored.low_seconds), at(stored.high_seconds)


def _levels(points: Sequence[Point]) -> list[Level]:
    judged = [point for point in points if point.verdict is not None]
    starts = {number for point in judged for number in _starts(point)}
    groups: list[list[Point]] = []
    present: dict[tuple[str, str], list[Point]] = {}
    for point in judged:
        key = (point.run.summary.workload_key, point.run.summary.configuration_key)
        if key not in present or point.run.number in starts:
            present[key] = []
            groups.append(present[key])
        present[key].append(point)
    levels: list[Level] = []
    for group in groups:
        usd = _level_usd(group)
        before = levels[-1].usd if levels else None
        levels.append(
            Level(
                numbers=tuple(point.run.number for point in group),
                usd=usd,
                change=float(usd / before - 1) if usd is not None and before else None,
                is_open_regression=group[-1].is_in_open_regression,
                began_with=_began_with(group[0]) if levels else "First run",
            )
        )
    return levels


def _starts(point: Point) -> set[int]:
    """Return the first runs of the levels that this run's verdict refers to."""
    verdict = point.verdict
    assert verdict is not None  # noqa: S101 - the caller looked
    if verdict.status == "confirmed" and verdict.since is not None:
        return {verdict.since}
    return {verdict.number} if verdict.ended_since is not None else set()


def _level_usd(group: Sequence[Point]) -> Decimal | None:
    """Return the median of its runs without the outliers; of all of them, if there are no
    others.
    """
    priced = [point for point in group if point.usd is not None]
    usual = [p.usd for p in priced if p.verdict and p.verdict.status != CLEARED]
    values = usual or [point.usd for point in priced]
    return Decimal(str(median(value for value in values if value is not None))) if values else None


def _began_with(first: Point) -> str:
    if first.marks:
        return "; ".join(mark.words for mark in first.marks)
    verdict = first.verdict
    if verdict is None:
        return ""
    told = [*verdict.causes, *verdict.beside]
    return told[0][:1].upper() + told[0][1:] if told else "No recorded change"


def _usd(amount: float | None) -> str:
    return display_usd(None if amount is None else Decimal(str(amount)))

"""The days of a month as bars in a box of 1000 x 120, drawn on the server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, timedelta
from decimal import Decimal

from webapp.accounts.models import Workspace
from webapp.spend.axis import Axis, axis
from webapp.spend.months import Month
from webapp.spend.sums import usd_by_day

WIDTH, HEIGHT, GAP = 1000.0, 120.0, 4.0
LEAST_HEIGHT = 1.5


@dataclass(frozen=True)
class DayBar:
    day: date
    usd: Decimal
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class MonthBars:
    """Bars of a month. `most_usd` is the cost of the most expensive day."""

    bars: list[DayBar]
    most_usd: Decimal
    axis: Axis


def month_bars(workspace: Workspace, month: Month) -> MonthBars | None:
    """Return one bar for each UTC day that overlaps the month, or None if nothing was spent."""
    (by_day,) = usd_by_day(workspace, month.start, month.end)
    most = max(by_day.values(), default=Decimal(0))
    if not most:
        return None
    days = _days(month)
    step, scale = WIDTH / len(days), axis(most, days)
    bars = [
        _bar(day, by_day.get(day, Decimal(0)), scale.top_usd, n * step, step)
        for n, day in enumerate(days)
    ]
    return MonthBars(bars, most, scale)


def _days(month: Month) -> list[date]:
    last = (month.end - timedelta(microseconds=1)).astimezone(UTC).date()
    first = month.start.date()
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def _bar(day: date, usd: Decimal, top: Decimal, x: float, step: float) -> DayBar:
    height = max(float(usd / top) * HEIGHT, LEAST_HEIGHT) if usd else 0.0
    shape = (x + GAP / 2, HEIGHT - height, step - GAP, height)
    return DayBar(day, usd, *(round(number, 1) for number in shape))

"""The days of a month as bars in a box of 1000 x 120, drawn on the server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, timedelta
from decimal import Decimal

from webapp.accounts.models import Workspace
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
    """`top_usd` is the cost of the most expensive day."""

    bars: list[DayBar]
    top_usd: Decimal


def month_bars(workspace: Workspace, month: Month) -> MonthBars | None:
    """One bar for each UTC day that overlaps the month; None: nothing was spent."""
    (by_day,) = usd_by_day(workspace, month.start, month.end)
    top = max(by_day.values(), default=Decimal(0))
    if not top:
        return None
    days = _days(month)
    step = WIDTH / len(days)
    return MonthBars(
        [_bar(day, by_day.get(day, Decimal(0)), top, n * step, step) for n, day in enumerate(days)],
        top,
    )


def _days(month: Month) -> list[date]:
    last = (month.end - timedelta(microseconds=1)).astimezone(UTC).date()
    first = month.start.date()
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def _bar(day: date, usd: Decimal, top: Decimal, x: float, step: float) -> DayBar:
    height = max(float(usd / top) * HEIGHT, LEAST_HEIGHT) if usd else 0.0
    shape = (x + GAP / 2, HEIGHT - height, step - GAP, height)
    return DayBar(day, usd, *(round(number, 1) for number in shape))

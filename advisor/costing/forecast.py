"""A month's spend at its end, from what the same runs spent on each day of the last months.

Each day still to come costs what is usual for such a day (`rhythm.py`), times a level. The level is
the spend of the month, and of the months before, relative to what was usual then. The months before
count by the usual spend that is still to come: much on the first day, nothing on the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from statistics import NormalDist

from advisor.costing.rhythm import Daily, UsualDay, predict_usual_day
from advisor.money import rounded_usd

HISTORY = timedelta(days=100)
"""Holds the three months before, less those days of the first that the month has had already."""
LEAST_DAYS = 7
"""The fewest known days in which a single day with spend is evidence of a rhythm. In fewer, each
further one halves, thirds, ... what is missing to so many days: an expensive first day is not every
day."""
WITHIN = 0.8
"""The share of months that should end within the interval."""
_Z = NormalDist().inv_cdf((1 + WITHIN) / 2)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Forecast:
    """The spend at the end of the month in USD. Four of five months end between `low_usd` and
    `high_usd`."""

    usd: Decimal
    low_usd: Decimal
    high_usd: Decimal
    days_known: int
    """Days of the history. The present day is one only if it is the first."""


@dataclass(frozen=True)
class _Level:
    """Spend relative to what is usual."""

    ratio: float
    known_usd: float
    """The spend that it is known from."""


def forecast(
    spent_usd: Decimal,
    daily_usd: Mapping[date, Decimal],
    first_day: date | None,
    now: datetime,
    month_start: datetime,
    month_end: datetime,
) -> Forecast | None:
    """Forecast the month from `month_start` to `month_end` that contains `now`.

    Args:
        spent_usd: exact, since the month's start.
        daily_usd: by UTC day, of the `HISTORY` before `now`. Days that are not in it cost nothing.
        first_day: the UTC day of the first spend ever.

    Returns:
        The forecast; None if too little is known. Nothing was spent before `now`, or on a single
            day of the last
        week and never before.
    """
    today = now.astimezone(UTC).date()
    if first_day is None or first_day > today:
        return None
    known = _known(daily_usd, first_day, today)
    known_days = _counted_days(known, float(daily_usd.get(today, 0)))
    if known_days is None:
        return None
    month = _days(_nearest_day(month_start), _nearest_day(month_end))
    left = [day for day in month if day > today]
    usual_day = predict_usual_day(known)
    still = [today, *left] if today in month else left
    level = _level(known, usual_day, month[0], usual_day.usd(still), known_days / len(known))
    rest_usd = usual_day.usd(left) * level.ratio
    if today in month:
        usual_today = usual_day.usd([today]) * level.ratio
        rest_usd += _rest_of_today_usd(usual_today, float(daily_usd.get(today, 0)), now)
    low_usd, high_usd = _interval_usd(rest_usd, level, usual_day.dispersion_usd)
    if known_days > len(known):
        high_usd = max(high_usd, rest_usd * known_days / len(known))
    low, usd, high = (
        spent_usd + rounded_usd(Decimal(repr(each))) for each in (low_usd, rest_usd, high_usd)
    )
    return Forecast(usd, low, high, len(known))


def _known(daily_usd: Mapping[date, Decimal], first_day: date, today: date) -> Daily:
    """Return the days before today since the first one; today alone, if it is the first."""
    days = _days(max(first_day, today - HISTORY), today) or [today]
    return {day: float(daily_usd.get(day, 0)) for day in days}


def _counted_days(known: Daily, today_usd: float) -> float | None:
    """Return the days that the known spend counts for: more than there are while they are few. None
    if its days are too few to tell how often it comes.
    """
    days_with_spend = sum(usd > 0 for usd in known.values()) + (today_usd > 0)
    missing = max(0, LEAST_DAYS - len(known))
    if missing and days_with_spend < 2:
        return None
    return len(known) + missing / max(1, days_with_spend)


def _level(
    known: Daily, usual_day: UsualDay, month_start: date, rest_usd: float, stretch: float
) -> _Level:
    """Return the level of the month so far, and of the days before it up to the usual spend of the
    rest.
    """
    before = [day for day in known if day < month_start]
    so_far = [day for day in known if day >= month_start]
    usual_before_usd, usual_so_far_usd = usual_day.usd(before), usual_day.usd(so_far)
    counted_usd = min(usual_before_usd, rest_usd)
    spent_usd = sum(known[day] for day in so_far)
    if counted_usd:
        spent_usd += sum(known[day] for day in before) / usual_before_usd * counted_usd
    whole_usd = (usual_so_far_usd + counted_usd) * stretch
    return _Level(spent_usd / whole_usd if whole_usd else 0.0, spent_usd)


def _rest_of_today_usd(usual_usd: float, spent_usd: float, now: datetime) -> float:
    """Return what is missing to a usual day, but not faster than a day's spend continues."""
    midnight = datetime.combine(now.astimezone(UTC).date() + _DAY, time(), UTC)
    return max(0.0, min(usual_usd - spent_usd, usual_usd * ((midnight - now) / _DAY)))


def _interval_usd(rest_usd: float, level: _Level, dispersion_usd: float) -> tuple[float, float]:
    """Return the interval of the rest of the month: normal with its variance and that of the level,
    never below 0.
    """
    if not rest_usd:
        return 0.0, 0.0
    margin_usd = _Z * math.sqrt(dispersion_usd * rest_usd * (1 + rest_usd / level.known_usd))
    return max(0.0, rest_usd - margin_usd), rest_usd + margin_usd


def _nearest_day(moment: datetime) -> date:
    """Return the UTC day whose midnight is nearest: a month of the workspace's zone in whole UTC
    days.
    """
    return (moment.astimezone(UTC) + _DAY / 2).date()


def _days(start: date, end: date) -> list[date]:
    return [start + number * _DAY for number in range((end - start).days)]

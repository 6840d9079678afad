"""Forecasts of a month's spend: by rhythm, with an interval, never below what was spent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.costing.forecast import Forecast, forecast

JULY, OCTOBER, NOVEMBER = (datetime(2026, month, 1, tzinfo=UTC) for month in (7, 10, 11))
Pattern = Callable[[date], float]


def forecast_on(day: int, spend: dict[date, float], hour: int = 0) -> Forecast | None:
    """In October, of a spend since July."""
    now = OCTOBER + timedelta(days=day - 1, hours=hour)
    known = {d: Decimal(repr(usd)) for d, usd in spend.items() if usd and d < now.date()}
    spent = sum((usd for d, usd in known.items() if d.month == 10), Decimal(0))
    return forecast(spent, known, min(known, default=None), now, OCTOBER, NOVEMBER)


def days(pattern: Pattern, random: np.random.Generator | None = None) -> dict[date, float]:
    """USD on each day from July to October."""
    noise = (lambda: float(np.exp(random.normal(0, 0.2)))) if random is not None else (lambda: 1.0)
    all_days = [(JULY + timedelta(days=n)).date() for n in range(123)]
    return {day: pattern(day) * noise() for day in all_days}


def every_day(day: date) -> float:
    return 10.0


def on_weekdays(day: date) -> float:
    return 10.0 if day.weekday() < 5 else 0.0


def weekly(day: date) -> float:
    return 50.0 if day.weekday() == 2 else 0.0


def monthly(day: date) -> float:
    return 200.0 if day.day == 2 else 0.0


PATTERNS = (every_day, on_weekdays, weekly, monthly)


def in_october(spend: dict[date, float]) -> float:
    return sum(usd for day, usd in spend.items() if day.month == 10)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("day", [1, 3, 9, 16, 25, 31])
def test_a_rhythm_is_forecast_on_any_day(pattern, day):
    spend = days(pattern)
    known = forecast_on(day, spend)
    assert known is not None
    assert float(known.usd) == pytest.approx(in_october(spend), rel=0.1)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_intervals_hold_what_they_say_and_the_centre_is_near(pattern):
    """Of 40 noisy histories, on five days each: within 25 % in the median."""
    errors, held = [], 0
    for seed in range(40):
        spend = days(pattern, np.random.default_rng(seed))
        for day in (1, 5, 12, 20, 28):
            known, truth = forecast_on(day, spend), in_october(spend)
            assert known is not None
            errors.append(abs(float(known.usd) / truth - 1))
            held += float(known.low_usd) - 1e-6 <= truth <= float(known.high_usd) + 1e-6
    assert np.median(errors) < 0.1
    assert np.quantile(errors, 0.9) < 0.25
    assert held / len(errors) >= 0.7


def test_a_job_that_runs_on_the_second_is_not_forecast_again_on_the_third():
    known = forecast_on(3, days(monthly))
    assert known is not None
    assert (known.usd, known.low_usd, known.high_usd) == (200, 200, 200)


def test_without_history_there_is_no_forecast():
    assert forecast_on(5, {}) is None


def test_at_the_end_of_the_month_the_interval_is_what_was_spent():
    spend = days(every_day)
    now = NOVEMBER - timedelta(seconds=1)
    known = {day: Decimal(repr(usd)) for day, usd in spend.items()}
    done = forecast(Decimal(310), known, min(known), now, OCTOBER, NOVEMBER)
    assert done is not None
    assert done.usd == pytest.approx(Decimal(310), abs=Decimal("0.01"))


spends = st.dictionaries(
    st.dates(date(2026, 7, 1), date(2026, 10, 31)),
    st.decimals(0, 10**6, places=9, allow_nan=False),
    max_size=40,
)


@given(spends, st.integers(0, 31 * 24 - 1))
def test_it_is_never_below_what_was_spent_and_lies_in_its_interval(spend, hour):
    now = OCTOBER + timedelta(hours=hour)
    known = {day: usd for day, usd in spend.items() if day <= now.date()}
    spent = sum((usd for day, usd in known.items() if day.month == 10), Decimal(0))
    told = forecast(spent, known, min(known, default=None), now, OCTOBER, NOVEMBER)
    if not known:
        assert told is None
        return
    assert told is not None
    assert spent <= told.low_usd <= told.usd <= told.high_usd
    assert told.high_usd.is_finite()
    assert told.days_known >= 1

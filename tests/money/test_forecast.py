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
    """Forecast in October, from a spend since July."""
    now = OCTOBER + timedelta(days=day - 1, hours=hour)
    known = {d: Decimal(repr(usd)) for d, usd in spend.items() if usd and d < now.date()}
    spent = sum((usd for d, usd in known.items() if d.month == 10), Decimal(0))
    return forecast(spent, known, min(known, default=None), now, OCTOBER, NOVEMBER)


def days(pattern: Pattern, random: np.random.Generator | None = None) -> dict[date, float]:
    """Return the USD on each day from July to October."""
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


def on_the_first_working_day(day: date) -> float:
    before = [date(day.year, day.month, n) for n in range(1, day.day + 1)]
    return 200.0 if day.weekday() < 5 and sum(d.weekday() < 5 for d in before) == 1 else 0.0


def on_the_last_day(day: date) -> float:
    return 200.0 if (day + timedelta(days=1)).day == 1 else 0.0


PATTERNS = (every_day, on_weekdays, weekly, monthly, on_the_first_working_day, on_the_last_day)


def in_october(spend: dict[date, float]) -> float:
    return sum(usd for day, usd in spend.items() if day.month == 10)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("day", [1, 3, 9, 16, 25, 31])
def test_a_rhythm_is_forecast_on_any_day(pattern, day):
    spend = days(pattern)
    known = forecast_on(day, spend)
    assert known is not None
    assert float(known.usd) == pytest.approx(in_october(spend), rel=0.1)


@pytest.mark.parametrize(
    ("pattern", "median", "at_most"),
    [*((pattern, 0.1, 0.25) for pattern in PATTERNS[:-1]), (on_the_last_day, 0.15, 0.4)],
)
def test_intervals_hold_what_they_say_and_the_centre_is_near(pattern, median, at_most):
    """The histories are 40 noisy ones, on five days each. What is paid on the last day is uncertain
    to the end: 15 % is the error of a mean of three such months.
    """
    errors, held = [], 0
    for seed in range(40):
        spend = days(pattern, np.random.default_rng(seed))
        for day in (1, 5, 12, 20, 28):
            known, truth = forecast_on(day, spend), in_october(spend)
            assert known is not None
            errors.append(abs(float(known.usd) / truth - 1))
            held += float(known.low_usd) - 1e-6 <= truth <= float(known.high_usd) + 1e-6
    assert np.median(errors) < median
    assert np.quantile(errors, 0.9) < at_most
    assert held / len(errors) >= 0.7


def test_a_job_that_runs_on_the_second_is_not_forecast_again_on_the_third():
    known = forecast_on(3, days(monthly))
    assert known is not None
    assert (known.usd, known.low_usd, known.high_usd) == (200, 200, 200)


def test_a_job_that_runs_on_the_first_working_day_is_not_forecast_again():
    """The first working day was the 1st in October 2026, and the 3rd in August."""
    known = forecast_on(6, days(on_the_first_working_day))
    assert known is not None
    assert (known.usd, known.low_usd, known.high_usd) == (200, 200, 200)


@pytest.mark.parametrize("day", range(2, 8))
def test_a_single_day_of_spend_is_no_forecast_for_a_week(day):
    assert forecast_on(day, {date(2026, 10, 1): 100.0}) is None


def test_after_a_quiet_week_a_single_day_of_spend_is_a_forecast():
    known = forecast_on(8, {date(2026, 10, 1): 100.0})
    assert known is not None
    assert 100 < float(known.usd) < 100 + 31 / 7 * 100


@pytest.mark.parametrize("runs", [2, 3, 5, 8])
def test_a_young_daily_job_is_forecast_between_its_spend_and_its_pace(runs):
    """The more days it ran, the nearer to its pace; the interval holds both."""
    known = forecast_on(1 + runs, {date(2026, 10, n): 10.0 for n in range(1, runs + 1)})
    assert known is not None
    assert 10 * runs < float(known.usd) <= 310.001
    assert float(known.high_usd) >= 309.999
    assert (float(known.usd) > 300) is (runs > 7)


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
    if told is None:
        assert not known or (len(known) == 1 and now.date() - min(known) < timedelta(days=7))
        return
    assert spent <= told.low_usd <= told.usd <= told.high_usd
    assert told.high_usd.is_finite()
    assert told.days_known >= 1

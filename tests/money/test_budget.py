"""The state of a budget at its limits, and its forecast."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from advisor.costing.budget import STATES, Standing, forecast_usd

END = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spent", "forecast", "state"),
    [
        ("0", "100", "ok"),
        ("0", "100.01", "forecast_over"),
        ("79.99", "200", "forecast_over"),
        ("79.99", "80", "ok"),
        ("80", "80", "over_threshold"),
        ("100", "100", "over_threshold"),
        ("100.01", "100.01", "over"),
    ],
)
def test_a_threshold_is_reached_at_its_amount_and_a_budget_is_over_above_it(
    spent: str, forecast: str, state: str
) -> None:
    assert Standing(Decimal(100), 80, Decimal(spent), Decimal(forecast)).state == state


def test_the_states_are_in_the_order_in_which_a_budget_is_used_up() -> None:
    spent_and_forecast = [(0, 0), (10, 110), (90, 90), (101, 101)]
    used = [Standing(Decimal(100), 80, *map(Decimal, each)) for each in spent_and_forecast]
    assert [each.state for each in used] == list(STATES)


@pytest.mark.parametrize(
    ("since_days", "left_days", "forecast"),
    [(100, 10, 40), (30, 10, 40), (15, 10, 50), (7, 7, 60), (1, 7, 60), (15, 0, 30), (15, -1, 30)],
)
def test_the_forecast_takes_the_pace_of_thirty_days_or_of_all_there_are_but_at_least_seven(
    since_days: int, left_days: int, forecast: int
) -> None:
    now = END - timedelta(days=left_days)
    first = now - timedelta(days=since_days)
    assert forecast_usd(Decimal(30), Decimal(30), first, now, END) == forecast


def test_where_nothing_was_ever_spent_nothing_is_forecast() -> None:
    now = END - timedelta(days=3)
    assert forecast_usd(Decimal(0), Decimal(0), None, now, END) == 0

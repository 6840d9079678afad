"""The state of a budget at its limits, and its forecast."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from advisor.costing.budget import STATES, Standing

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

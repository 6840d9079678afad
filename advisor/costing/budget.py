"""The state of a budget in its month: the amount spent, the forecast, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from advisor.money import rounded_usd

OK, FORECAST_OVER, OVER_THRESHOLD, OVER = "ok", "forecast_over", "over_threshold", "over"
STATES = (OK, FORECAST_OVER, OVER_THRESHOLD, OVER)
"""The states, from best to worst."""
PACE_WINDOW = timedelta(days=30)
"""The rest of the month is projected at the pace of this time window."""
LEAST_WINDOW = timedelta(days=7)
"""The shortest window, for new workspaces: one expensive day must not set the pace."""


@dataclass(frozen=True)
class Standing:
    """All in USD per month. `forecast_usd` is `spent_usd` plus the rest of the month at the
    pace."""

    amount_usd: Decimal
    threshold_pct: int
    spent_usd: Decimal
    forecast_usd: Decimal

    @property
    def threshold_usd(self) -> Decimal:
        return self.amount_usd * self.threshold_pct / 100

    @property
    def state(self) -> str:
        if self.spent_usd > self.amount_usd:
            return OVER
        if self.spent_usd >= self.threshold_usd:
            return OVER_THRESHOLD
        return FORECAST_OVER if self.forecast_usd > self.amount_usd else OK


def forecast_usd(
    spent_usd: Decimal,
    recent_usd: Decimal,
    first_cost_at: datetime | None,
    now: datetime,
    end: datetime,
) -> Decimal:
    """The forecast of the month's cost at its `end`.

    Args:
        recent_usd: spent in the `PACE_WINDOW` before `now`.
        first_cost_at: the time of the first spend; None: never.
    """
    if first_cost_at is None or now >= end:
        return spent_usd
    window = min(PACE_WINDOW, max(now - first_cost_at, LEAST_WINDOW))
    left = Fraction((end - now) // timedelta(microseconds=1), window // timedelta(microseconds=1))
    return spent_usd + rounded_usd(Fraction(recent_usd) * left)

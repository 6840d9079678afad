"""The state of a budget in its month: the amount spent, the forecast, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

OK, FORECAST_OVER, OVER_THRESHOLD, OVER = "ok", "forecast_over", "over_threshold", "over"
STATES = (OK, FORECAST_OVER, OVER_THRESHOLD, OVER)
"""The states, from best to worst."""


@dataclass(frozen=True)
class Standing:
    """All in USD per month. `low_usd` and `high_usd` are the forecast's interval. None: too little
    is known for a forecast."""

    amount_usd: Decimal
    threshold_pct: int
    spent_usd: Decimal
    forecast_usd: Decimal | None = None
    low_usd: Decimal | None = None
    high_usd: Decimal | None = None

    @property
    def threshold_usd(self) -> Decimal:
        return self.amount_usd * self.threshold_pct / 100

    @property
    def state(self) -> str:
        if self.spent_usd > self.amount_usd:
            return OVER
        if self.spent_usd >= self.threshold_usd:
            return OVER_THRESHOLD
        if self.forecast_usd is not None and self.forecast_usd > self.amount_usd:
            return FORECAST_OVER
        return OK

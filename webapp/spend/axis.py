"""The axes of charts of money by day that the server draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from advisor.money import round_amount_above

LABEL_EVERY = 7
LABEL_DAYS = 4
"""The number of days that are as wide as a label, on a narrow screen."""


@dataclass(frozen=True)
class Axis:
    """Axis from $0 to `top_usd`. `days` are those of the chart, in order."""

    top_usd: Decimal
    days: Sequence[date]

    @property
    def middle_usd(self) -> Decimal:
        return self.top_usd / 2

    @property
    def labels(self) -> list[date | None]:
        """Return a label for each day; None if it isn't written, so that the others have room."""
        last = len(self.days) - LABEL_DAYS
        return [
            day if at % LABEL_EVERY == 0 and at <= last else None
            for at, day in enumerate(self.days)
        ]


def axis(most_usd: Decimal, days: Sequence[date]) -> Axis:
    """Return an axis up to the next round amount."""
    return Axis(round_amount_above(most_usd), days)

"""Calibrates new estimates: how well past ones held, and by how much that widens the intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from advisor.advice.recommendation import PRIOR, Recommendation, SavingRange
from advisor.money import rounded_usd
from advisor.proof.saving import REACH

PRIOR_PAIRS = 8.0
"""Estimates that count as having held as promised, before any was checked (ours)."""
MOST_SPREADS = 5.0
"""One estimate that was far off counts as this many spreads, so that it alone decides nothing."""
MOST_WIDENING = 4.0
LEAST_HALF = Decimal("0.01")
"""The least half of an interval, as a share of the baseline: no estimate is more exact, even one
without an interval."""


@dataclass(frozen=True)
class Pair:
    """A promised saving and the realised one, for the same work; USD, signed."""

    low: Decimal
    mid: Decimal
    high: Decimal
    realised: Decimal
    baseline: Decimal
    """The amount that the work would have cost before."""


def widening(pairs: Sequence[Pair]) -> float:
    """Return the factor for the width of new intervals, 1 to 4. The order of the pairs doesn't
    matter.

    The root mean square of the errors in spreads of their own intervals, shrunk to 1 by
    `PRIOR_PAIRS`. Estimates that held better than promised narrow nothing.
    """
    squares = sum(min(_spreads(pair), MOST_SPREADS) ** 2 for pair in pairs)
    variance = (PRIOR_PAIRS + squares) / (PRIOR_PAIRS + len(pairs))
    return min(max(math.sqrt(variance), 1.0), MOST_WIDENING)


def score(pairs: Sequence[Pair]) -> float | None:
    """Return realised over promised, in sum: 1 is exact, 0.8 means that a fifth was not realised.
    None if nothing was promised.
    """
    promised = sum((pair.mid for pair in pairs), Decimal(0))
    realised = sum((pair.realised for pair in pairs), Decimal(0))
    return float(realised / promised) if promised > 0 else None


def widen_interval(
    advised: Recommendation, factor: float, cost_usd: Decimal | None
) -> Recommendation:
    """Return it with an interval that many times as wide, within 0 and the run's cost; it says
    so.
    """
    low, mid, high = advised.saving_low_usd, advised.saving_usd, advised.saving_high_usd
    if factor <= 1 or cost_usd is None or low is None or mid is None or high is None:
        return advised
    wider = Decimal(str(factor))
    saving = SavingRange.clamp(cost_usd, mid - wider * (mid - low), mid, mid + wider * (high - mid))
    words = f"The interval is {factor:.1f} times as wide: past estimates of this kind were off."
    monthly = advised.monthly_saving_usd
    if advised.rung == PRIOR and monthly and low:
        monthly = rounded_usd(monthly * saving.low / low)
    return replace(
        advised,
        saving_low_usd=saving.low,
        saving_high_usd=saving.high,
        monthly_saving_usd=monthly,
        assumptions=[*advised.assumptions, words],
    )


def _spreads(pair: Pair) -> float:
    """Return the error, in standard deviations of the promised 90 % interval."""
    error = pair.realised - pair.mid
    half = pair.high - pair.mid if error > 0 else pair.mid - pair.low
    least = LEAST_HALF * abs(pair.baseline)
    half = max(half, least)
    return float(abs(error) / half) * REACH if half else 0.0

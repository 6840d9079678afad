"""The promise of a recommendation for the choice that a run made, to compare and to split by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from advisor.proof.followers import FollowedChange
from advisor.proof.runs import Promise, PromisedSaving
from advisor.proof.splitting import UNPROMISED_SPREAD, SplitChange

NINE_TENTHS = 3.29
"""Standard deviations between the ends of a 90 % interval."""
LEAST_RATIO = 0.01


def promised_part(promise: Promise, choice: FollowedChange) -> SplitChange:
    """Return the change as one of several that came with the same run."""
    if promise.bought:
        return SplitChange(is_about_machine=True, time_ratio=1.0)
    if choice.is_own_way:
        return SplitChange(is_about_machine=True, time_ratio=1.0, spread=UNPROMISED_SPREAD)
    low, mid, high = _time_ratios(promise.estimate, choice.candidate)
    spread = math.log(high / low) / NINE_TENTHS
    return SplitChange(promise.is_about_machine, mid, spread)


def promised_shares(
    promise: Promise, choice: FollowedChange
) -> tuple[Decimal, Decimal, Decimal] | None:
    """Return the promised saving as shares of the cost before: low, middle, high. By the row that
    was chosen, else as recommended; None: nothing was promised for this choice, or no price."""
    if choice.is_own_way:
        return None
    row, cost = choice.candidate, promise.estimate.cost_usd
    names = ("cost_high_usd", "cost_mid_usd", "cost_low_usd")
    if row is None or not cost or any(row.get(name) is None for name in names):
        return promise.estimate.shares()
    low, mid, high = (1 - Decimal(str(row[name])) / cost for name in names)
    return low, mid, high


def _time_ratios(
    estimate: PromisedSaving, candidate: Mapping[str, Any] | None
) -> tuple[float, float, float]:
    """Return the promised duration over the one before: low, middle, high; 1 if nothing was
    promised.
    """
    if candidate is not None:
        names = ("time_low_seconds", "time_mid_seconds", "time_high_seconds")
        before, seconds = estimate.duration_seconds, [candidate.get(name) for name in names]
        if not before or not all(seconds):
            return 1.0, 1.0, 1.0
        low, mid, high = (float(value) / before for value in seconds if value)
        return low, mid, high
    shares = estimate.shares()
    if shares is None:
        return 1.0, 1.0, 1.0
    high, mid, low = (max(float(1 - share), LEAST_RATIO) for share in shares)
    return low, mid, high

"""The projected final cost of a running run, from its parameters and its pace so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from advisor.money import rounded_usd

PLANNED = {
    "steps": ("max_steps", "total_steps", "num_steps", "num_train_steps", "train_steps"),
    "epochs": ("epochs", "num_epochs", "max_epochs", "n_epochs", "num_train_epochs"),
}
"""Parameters with a run's total amount of work, by unit, the more exact unit first."""


@dataclass(frozen=True)
class Projection:
    """The final cost of a running run at its present pace."""

    unit: str
    done: float
    planned: float
    seconds_left: float
    usd: Decimal
    """The cost at the end. `low_usd` and `high_usd` differ if the amount done is known in whole
    units only."""
    low_usd: Decimal
    high_usd: Decimal

    @property
    def is_interval(self) -> bool:
        return self.low_usd != self.high_usd


def projection(
    cost_usd: Decimal,
    duration_seconds: float,
    train_seconds: float,
    work: Mapping[str, float],
    parameters: Mapping[str, Any],
) -> Projection | None:
    """The final cost of a run whose parameters state its total steps or epochs.

    The rest is done at the pace of the training so far, and paid at the price of the run so far.
    Epochs are counted when they begin, so the last one may be new or nearly done: an interval.

    Returns:
        None: no total or no work is known, nothing is left to do, or no training time is known.
    """
    for unit, names in PLANNED.items():
        planned, seen = _planned(parameters, names), work.get(unit, 0.0)
        uncertain = 1.0 if unit == "epochs" else 0.0
        if planned is None or seen - uncertain <= 0 or planned <= seen - uncertain:
            continue
        done = seen - uncertain / 2
        left = [_seconds_left(train_seconds, d, planned) for d in (seen, done, seen - uncertain)]
        if not train_seconds > 0 or not duration_seconds > 0:
            return None
        usd = [_usd_at_end(cost_usd, duration_seconds, seconds) for seconds in left]
        return Projection(unit, done, planned, left[1], usd[1], usd[0], usd[2])
    return None


def has_reached_plan(work: Mapping[str, float], parameters: Mapping[str, Any]) -> bool:
    """The parameters state a total of steps or epochs, and so much was done."""
    plans = ((unit, _planned(parameters, names)) for unit, names in PLANNED.items())
    return any(planned is not None and work.get(unit, 0) >= planned for unit, planned in plans)


def _seconds_left(train_seconds: float, done: float, planned: float) -> float:
    return max(train_seconds / done * (planned - done), 0.0)


def _usd_at_end(cost_usd: Decimal, duration_seconds: float, seconds_left: float) -> Decimal:
    more = Fraction(str(seconds_left)) / Fraction(str(duration_seconds))
    return rounded_usd(Fraction(cost_usd) * (1 + more))


def _planned(parameters: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    """The first parameter that is a number above 0."""
    stated = {str(k).lstrip("-").replace("-", "_").lower(): v for k, v in parameters.items()}
    for name in names:
        try:
            value = float(stated[name])
        except (KeyError, TypeError, ValueError):
            continue
        if math.isfinite(value) and value > 0:
            return value
    return None

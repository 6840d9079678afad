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
    """The cost at the end."""


def projection(
    cost_usd: Decimal,
    duration_seconds: float,
    train_seconds: float,
    work: Mapping[str, float],
    parameters: Mapping[str, Any],
) -> Projection | None:
    """Return the final cost of a run whose parameters state its total steps or epochs.

    The rest is done at the pace of the training so far, and paid at the price of the run so far.

    Returns:
        The projection; None if no total or no work is known, nothing is left to do, or no training
            time is known.
    """
    for unit, names in PLANNED.items():
        planned, done = _planned(parameters, names), work.get(unit, 0.0)
        if planned is None or done <= 0 or planned <= done:
            continue
        if not train_seconds > 0 or not duration_seconds > 0:
            return None
        left = train_seconds / done * (planned - done)
        usd = _usd_at_end(cost_usd, duration_seconds, left)
        return Projection(unit, done, planned, left, usd)
    return None


def has_reached_plan(work: Mapping[str, float], parameters: Mapping[str, Any]) -> bool:
    """Return whether the parameters state a total of steps or epochs, and so much was done."""
    plans = ((unit, _planned(parameters, names)) for unit, names in PLANNED.items())
    return any(planned is not None and work.get(unit, 0) >= planned for unit, planned in plans)


def _usd_at_end(cost_usd: Decimal, duration_seconds: float, seconds_left: float) -> Decimal:
    more = Fraction(str(seconds_left)) / Fraction(str(duration_seconds))
    return rounded_usd(Fraction(cost_usd) * (1 + more))


def _planned(parameters: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    """Return the first parameter that is a number above 0."""
    stated = {str(k).lstrip("-").replace("-", "_").lower(): v for k, v in parameters.items()}
    for name in names:
        try:
            value = float(stated[name])
        except (KeyError, TypeError, ValueError):
            continue
        if math.isfinite(value) and value > 0:
            return value
    return None

"""Finds a lasting regression that began when its level had few runs.

After few runs the level is known roughly. Some runs of a change then lie inside of what it lets
expect, and clear the ones that don't. So the runs of a young level are cut in two wherever both
sides have enough runs, and the newest are compared with those before as a whole. This is the
likelihood ratio of a change at an unknown run (Hinkley, "Inference about the change-point in a
sequence of random variables", Biometrika 57, 1970), with Student's margin, because these runs also
tell the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median_low

from advisor.successive.noise import OWN_PRIOR_FREEDOM, Noise, Prior, location, pool_noise

LEAST_BEFORE, MOST_BEFORE = 3, 10
"""The runs before a change; with more of them, single runs show it."""
LEAST_SINCE, MOST_SINCE = 4, 8
LEAST_CHANGE = math.log1p(0.065)
"""The least change: above the gate, because several cuts are tried after each run."""
FOUND, SLACK = 2.0, 1.3
"""A change of that many spreads is found by its eighth run in three of four cases."""


def early_change(
    values: Sequence[float], others: Sequence[Sequence[float]], prior: Prior, gate: float
) -> int | None:
    """Return the index of the first run of a lasting regression, or None.

    Args:
        values: logarithms of a level's runs, in order.
        others: those of the other levels, which tell the noise, too.
        gate: more than half of the runs since are above the level before by this.
    """
    at = _strongest(values)
    if at is None:
        return None
    before, since = values[:at], values[at:]
    noise = pool_noise([*others, before, since], replace(prior, freedom=OWN_PRIOR_FREEDOM))
    usual = location(before, noise.spread)
    change = location(since, noise.spread) - usual
    margin = noise.own_margin(_reach(at) * noise.lasting, at, len(since))
    is_most = median_low(since) - usual >= gate
    return at if is_most and change >= max(margin, LEAST_CHANGE) else None


def _strongest(values: Sequence[float]) -> int | None:
    """Return the cut whose newer side is above the older one by most margins."""
    count = len(values)
    first, last = max(LEAST_BEFORE, count - MOST_SINCE), min(MOST_BEFORE, count - LEAST_SINCE)
    ratios = {at: _ratio(values[:at], values[at:]) for at in range(first, last + 1)}
    return max(ratios, key=lambda at: ratios[at], default=None)


def _ratio(before: Sequence[float], since: Sequence[float]) -> float:
    margin = Noise(1.0, 0).margin(_reach(len(before)), len(before), len(since))
    return (fmean(since) - fmean(before)) / margin


def _reach(before: int) -> float:
    """Return how many spreads of a difference count after so many runs: fewer after few, or
    a change couldn't be found at all.
    """
    return FOUND / math.sqrt(1 / before + 1 / MOST_SINCE) - SLACK

"""Stay, measure a candidate first, or switch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from advisor.speed.kernel import Floats
from advisor.speed.prediction import HISTORY, MEASURED, SAME, Z80, Prediction, Speed

STAY, PROBE, SWITCH = "stay", "probe", "switch"
LEAST_SAVING = 0.05
MOST_PROBES = 2
"""The most probes in one round."""
MOST_ROUNDS = 2
MAX_SLOWER = 0.1
PROBE_COST = 0.03
"""The cost of a probe, as a share of what the present runs cost in a month, if nobody says."""
_Z_OF_RUNG = {MEASURED: Z80, SAME: Z80, HISTORY: 2.0}
"""The distance of the interval's adverse end from the median; no other rung may switch."""
_MEASURING_MARGIN = 0.05
"""The adverse end of a measured interval, as a share of the median: what a probe has to clear."""
_DRAWS = 512


@dataclass(frozen=True)
class Cost:
    """The cost of one target."""

    per_hour: float | None
    """The cost per hour over the present one; None without a price."""
    probe: float = PROBE_COST
    """The cost of measuring it, as a share of a month's cost of the present runs."""


@dataclass(frozen=True)
class Decision:
    """Savings are shares of what the present runs cost."""

    kind: str
    targets: tuple[int, ...] = ()
    """Indices: the one to switch to, or those to measure first, the most promising first."""
    saving: float = 0.0
    """The saving of a switch: at the median. That of a probe: expected, less the probes' cost."""
    odds: float | None = None
    """The probability, for a probe, that one of the targets pays."""


def decide(
    prediction: Prediction,
    costs: Sequence[Cost],
    max_slower: float = MAX_SLOWER,
    rounds: int = 0,
) -> Decision:
    """Return the advice that the prediction and the prices allow.

    Args:
        costs: in the order of the prediction's targets.
        max_slower: how much longer the run may take, as a share.
        rounds: of probes that were already answered.
    """
    best = _best_switch(prediction.speeds, costs, max_slower)
    if rounds < MOST_ROUNDS:
        probe = _best_probe(prediction, costs, max_slower, best.saving)
        if probe.targets:
            return probe
    return best


def can_switch(speed: Speed, cost: Cost, max_slower: float = MAX_SLOWER) -> bool:
    """Return whether it is cheaper and fast enough at the adverse end of the interval, and worth
    the change.
    """
    if speed.rung not in _Z_OF_RUNG or cost.per_hour is None:
        return False
    low = speed.low(_Z_OF_RUNG[speed.rung])
    is_cheaper = cost.per_hour < low and 1 - cost.per_hour / speed.median >= LEAST_SAVING
    return is_cheaper and 1 / low <= 1 + max_slower


def _best_switch(speeds: Sequence[Speed], costs: Sequence[Cost], max_slower: float) -> Decision:
    savings = {
        n: 1 - cost.per_hour / speed.median
        for n, (speed, cost) in enumerate(zip(speeds, costs, strict=True))
        if cost.per_hour is not None and can_switch(speed, cost, max_slower)
    }
    if not savings:
        return Decision(STAY)
    best = max(savings, key=lambda n: savings[n])
    return Decision(SWITCH, (best,), savings[best])


def _best_probe(
    prediction: Prediction, costs: Sequence[Cost], max_slower: float, secured: float
) -> Decision:
    """Return the probe of at most two targets, each chosen for what it adds to the expected saving
    over `secured`.
    """
    open_targets = [
        n
        for n, (speed, cost) in enumerate(zip(prediction.speeds, costs, strict=True))
        if speed.rung not in ("", MEASURED, SAME) and cost.per_hour is not None
    ]
    advice = Decision(PROBE)
    if not open_targets:
        return advice
    gains = _gains(prediction, costs, open_targets, max_slower, secured)
    reached = np.zeros(len(gains))
    for _ in range(MOST_PROBES):
        with_each = np.maximum(gains, reached[:, None])
        added = with_each.mean(axis=0) - reached.mean()
        net = added - [costs[n].probe for n in open_targets]
        best = int(np.argmax(net))
        if net[best] <= 0:
            break
        reached = with_each[:, best]
        advice = replace(
            advice,
            targets=(*advice.targets, open_targets[best]),
            saving=advice.saving + float(net[best]),
            odds=float(np.mean(reached > 0)),
        )
    return advice


def _gains(
    prediction: Prediction,
    costs: Sequence[Cost],
    targets: Sequence[int],
    max_slower: float,
    secured: float,
) -> Floats:
    """Return (draws, targets): the saving beyond `secured`, 0 where the speed drawn rules a switch
    out.
    """
    index = np.array(targets)
    medians = np.array([prediction.speeds[n].log_median for n in targets])
    covariance = prediction.covariance[np.ix_(index, index)]
    root = np.linalg.cholesky(covariance + 1e-6 * np.eye(len(index)))
    speeds = np.exp(medians + _draws(len(index)) @ root.T)
    per_hour = np.array([costs[n].per_hour for n in targets], dtype=np.float64)
    savings = 1 - per_hour / speeds
    adverse = speeds * (1 - _MEASURING_MARGIN)
    allowed = (savings >= LEAST_SAVING) & (per_hour < adverse) & (adverse * (1 + max_slower) >= 1)
    return np.where(allowed, np.maximum(savings - secured, 0.0), 0.0)


@cache
def _draws(count: int) -> Floats:
    return np.random.default_rng(0).standard_normal((_DRAWS, count))

"""The pace of a training loop, and what sets it: `t = max(G, D) + E`.

G is the time of the GPU, D that of the loader, both of one step. A faster GPU shortens G, more or
faster cores shorten D, a fix of the loader shortens D; so all of them stand on one scale.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from advisor.sizing.cpu import RatioInterval
from advisor.sizing.gpu_use import MeasuredRule

RULE = "input_bound"
LEAST_WAIT = 0.05
"""The share of waiting below which the loader doesn't set the pace (TensorFlow's guide: 5 %)."""
USUAL_VARIATION = 0.5
"""Coefficient of variation of a loader's times, if it wasn't measured (ours)."""


MOST_VARIATION = 1.0
"""The variation up to which the excess was simulated."""


@dataclass(frozen=True)
class LoaderPace:
    """The pace of a run whose loader sets it: D is the whole step."""

    loop_share: float
    """The share of the run's duration that is its steps'."""
    wait_share: float
    """The share of the steps that is waiting for data; the rest is G."""
    variation: float = USUAL_VARIATION

    def time(self, loader: RatioInterval, gpu: RatioInterval) -> RatioInterval:
        """Return the run's duration relative to now, if the loader and the GPU take so much
        longer.
        """
        low, mid, high = (
            self._loop(d, g)
            for d, g in ((loader.low, gpu.low), (loader.mid, gpu.mid), (loader.high, gpu.high))
        )
        likely = self._whole(mid)
        above = self._whole(high * self._excess(loader.high, gpu.high))
        return RatioInterval(min(self._whole(low), likely), likely, max(above, likely))

    def _loop(self, loader: float, gpu: float) -> float:
        return max(loader, (1 - self.wait_share) * gpu)

    def _whole(self, loop: float) -> float:
        return self.loop_share * loop + 1 - self.loop_share

    def _excess(self, loader: float, gpu: float) -> float:
        """Return by how much the larger of two times exceeds the larger of their means, as they
        vary. Simulated with G = D: 1.2 times at a variation of 0.5, 1.55 times at 1.
        """
        times = loader, (1 - self.wait_share) * gpu
        nearness = min(times) / max(times)
        return 1 + nearness * (0.25 * self.variation + 0.3 * self.variation**2)


def pace(judgements: Iterable[MeasuredRule], variation: float | None = None) -> LoaderPace | None:
    """Return the pace, or None if the loader doesn't set it, or its waits weren't measured.

    Args:
        variation: coefficient of variation of the steps' times; None if not measured.
    """
    numbers = next((j.numbers for j in judgements if j.rule_id == RULE), None)
    if numbers is None:
        return None
    wait_pct, steps = numbers.get("wait_share_pct"), numbers.get("step_seconds")
    run = numbers.get("run_seconds")
    if wait_pct is None or not steps or not run or wait_pct / 100 < LEAST_WAIT:
        return None
    varies = USUAL_VARIATION if variation is None else min(variation, MOST_VARIATION)
    return LoaderPace(min(steps / run, 1.0), min(wait_pct / 100, 1.0), varies)

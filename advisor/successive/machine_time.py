"""The quantity by which successive runs are judged: machine time per unit of work.

Prices, discounts and shares of a machine are not in it, so they never look like a regression. Nor
is the fixed start-up, if it was measured: fewer units would have to carry it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.comparison.startup import growing_share

UNITS = ("samples", "tokens", "steps", "epochs")
"""The units in the order in which they are tried. Steps are of one batch size, because the
configuration is the same; an epoch grows with the data."""
LEAST_AMOUNT = 1e-3


@dataclass(frozen=True)
class MachineWork:
    """A run's machines and work. `machine_seconds`: of all its nodes together."""

    machine_seconds: float | None
    duration_seconds: float | None
    work: Mapping[str, float] = field(default_factory=dict)
    phase_seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def loop_share(self) -> float | None:
        """Return the share of its time that grows with its work; None if not measured."""
        if not self.duration_seconds:
            return None
        return growing_share(self.phase_seconds, self.duration_seconds)

    @property
    def fixed_seconds(self) -> float | None:
        """Return the seconds on the clock before and after the training loop; None if not
        measured.
        """
        share = self.loop_share
        if share is None or self.duration_seconds is None:
            return None
        return (1 - share) * self.duration_seconds


@dataclass(frozen=True)
class Quantity:
    """Machine time per `unit`: of the training loop, or of the whole run if it wasn't measured."""

    unit: str
    is_loop: bool

    def seconds_per_unit(self, run: MachineWork) -> float | None:
        """Return the seconds per unit, above 0; None if this run doesn't tell it."""
        share = run.loop_share if self.is_loop else 1.0
        done = run.work.get(self.unit, 0.0)
        if share is None or run.machine_seconds is None or not done >= LEAST_AMOUNT:
            return None
        seconds = share * run.machine_seconds / done
        return seconds if math.isfinite(seconds) and seconds > 0 else None


def quantity(run: MachineWork) -> Quantity | None:
    """Return the first quantity that the run tells; None if it counted no work."""
    candidates = (Quantity(unit, is_loop) for is_loop in (True, False) for unit in UNITS)
    return next((each for each in candidates if each.seconds_per_unit(run) is not None), None)

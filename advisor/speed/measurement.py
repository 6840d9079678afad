"""Measured configurations, and those to predict."""

from __future__ import annotations

import math
from dataclasses import dataclass

NOISE = 0.03
"""Relative standard deviation of a throughput that states none (repeats of one run: 1-4 %)."""


@dataclass(frozen=True)
class Measurement:
    """The throughput of one configuration, as a run or a probe measured it."""

    workload: str
    """The job, or what else must be equal for the same work."""
    gpu: str
    throughput: float
    """Work per second of all GPUs together, in any unit that the workload keeps."""
    precision: str = ""
    """`fp32`, `fp32/tf32`, `fp16`, `bf16` or `mixed`; empty: unknown."""
    batch: float | None = None
    """Samples a step of all GPUs together."""
    gpus: int = 1
    util_pct: float | None = None
    """The mean utilisation of the GPUs."""
    util_kind: str = ""
    probe_steps: int | None = None
    rel_sd: float | None = None
    """Relative standard deviation of the throughput."""

    @property
    def configuration(self) -> tuple[str, float | None, str, int]:
        """Return what must be equal for throughputs to be comparable between GPUs."""
        return self.workload, self.batch, self.precision, self.gpus

    @property
    def noise(self) -> float:
        return NOISE if self.rel_sd is None else min(max(self.rel_sd, 0.001), 1.0)

    @property
    def busy_share(self) -> float | None:
        """Return the busy share, 0 to 1; None if unknown. A share of the power limit doesn't say
        how busy a GPU was.
        """
        if self.util_pct is None or "power" in self.util_kind.lower():
            return None
        return min(max(self.util_pct / 100, 0.01), 1.0)


@dataclass(frozen=True)
class Target:
    """A configuration that the present run's workload could use."""

    gpu: str
    gpus: int = 1


def is_comparable(one: Measurement, other: Measurement) -> bool:
    """Return whether the throughputs tell of the same work: same batch, or the same batch for each
    GPU.
    """
    if (one.workload, one.precision) != (other.workload, other.precision):
        return False
    if one.batch is None or other.batch is None or one.gpus == other.gpus:
        return one.batch == other.batch
    return math.isclose(one.batch / one.gpus, other.batch / other.gpus, rel_tol=0.01)

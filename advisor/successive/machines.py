"""Machines on which equal runs take longer: told apart from changes of the job.

A run that is slow because of its machine is no regression. So a machine that has been seen beside
others within a level gets an effect, by which its runs are adjusted. The strongest comes first,
because it also shifts the mean of the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from advisor.successive.noise import Noise, location

REACH = 3.0
"""Spreads of a difference, for each machine: a job may run on many."""
GATE = math.log1p(0.03)
LEAST_RUNS, LEAST_OTHERS = 2, 3
MOST_MACHINES = 4
LEAST_KNOWN = 0.5
"""The share of the runs that must be on a machine with other runs. Else each run has a new one,
as in a cloud, and the machine explains nothing."""

Placed = tuple[str, float]
"""A run's machine and its value, a logarithm."""


@dataclass(frozen=True)
class MachineEffect:
    """The effect of `machine`: how much longer runs take on it than on the others. Ratios minus
    1.
    """

    machine: str
    change: float
    low: float
    high: float
    runs: int
    other_runs: int


def tells(machines: Sequence[str]) -> bool:
    """Return whether runs come back to the same machines."""
    counts = Counter(machine for machine in machines if machine)
    known = sum(count for count in counts.values() if count > 1)
    return bool(machines) and known >= LEAST_KNOWN * len(machines)


def effects(levels: Iterable[Sequence[Placed]], noise: Noise) -> list[MachineEffect]:
    """Return the machines that differ beyond the noise, the strongest first."""
    placed = [list(level) for level in levels]
    found: list[MachineEffect] = []
    while len(found) < MOST_MACHINES and (strongest := _strongest(placed, noise, found)):
        found.append(strongest)
        shift = math.log1p(strongest.change)
        placed = [
            [(m, v - shift if m == strongest.machine else v) for m, v in level] for level in placed
        ]
    return found


def shifts(found: Iterable[MachineEffect]) -> Mapping[str, float]:
    """Return machine -> what its runs' logarithms are adjusted by."""
    return {effect.machine: math.log1p(effect.change) for effect in found}


def _strongest(
    levels: Sequence[Sequence[Placed]], noise: Noise, found: Sequence[MachineEffect]
) -> MachineEffect | None:
    names = {machine for level in levels for machine, _ in level if machine}
    names -= {effect.machine for effect in found}
    candidates = [e for name in sorted(names) if (e := effect_on(name, levels, noise)) is not None]
    return max(candidates, key=lambda effect: abs(math.log1p(effect.change)), default=None)


def effect_on(
    machine: str, levels: Iterable[Sequence[Placed]], noise: Noise
) -> MachineEffect | None:
    """Return the effect, or None for too few runs, or within the noise."""
    differences, weights, own_runs, other_runs = [], [], 0, 0
    for level in levels:
        own = [value for name, value in level if name == machine]
        others = [value for name, value in level if name != machine]
        if own and others:
            middle = location(others, noise.spread)
            differences.append(location(own, noise.spread) - middle)
            weights.append(len(own) * len(others) / (len(own) + len(others)))
            own_runs, other_runs = own_runs + len(own), other_runs + len(others)
    # A machine that most runs used is the measure of the others.
    if own_runs < LEAST_RUNS or other_runs < max(LEAST_OTHERS, own_runs):
        return None
    shift = sum(d * w for d, w in zip(differences, weights, strict=True)) / sum(weights)
    margin = REACH * noise.spread / math.sqrt(sum(weights))
    if abs(shift) < max(margin, GATE):
        return None
    low, high = (math.expm1(shift + sign * margin) for sign in (-1, 1))
    return MachineEffect(machine, math.expm1(shift), low, high, own_runs, other_runs)

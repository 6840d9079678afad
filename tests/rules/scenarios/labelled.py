"""Labelled runs of each rule, and how well verdicts agree with their labels."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rules.frame import RunFrame
from tests.rules.scenarios.confounders import Confounder
from tests.rules.scenarios.world import World

POSITIVE, NEAR_MISS = (1.1, 2.0), (0.5, 0.9)


@dataclass(frozen=True)
class Scenario:
    """The way to make a synthetic run break a rule, and what else may happen in that run."""

    rule_id: str
    set_up: Callable[[World, float], None]
    """Takes the run and how far beyond the rule's threshold it is to be: 1.1 to 2 for a positive,
    0.5 to 0.9 for a near miss. Of a lower limit the value is the limit over the factor."""
    confounders: tuple[Confounder, ...]


@dataclass(frozen=True)
class Labelled:
    rule_id: str
    should_fire: bool
    factor: float
    confounder: str
    frame: RunFrame


@dataclass(frozen=True)
class Score:
    """The score of one rule."""

    positives: int
    near_misses: int
    true_alarms: int
    false_alarms: int

    @property
    def precision(self) -> float:
        fired = self.true_alarms + self.false_alarms
        return self.true_alarms / fired if fired else 0.0

    @property
    def recall(self) -> float:
        return self.true_alarms / self.positives if self.positives else 0.0


def labelled(
    scenario: Scenario, seed: int, count: int, sampled_seconds: float = 1.0
) -> Iterator[Labelled]:
    """`count` runs of the rule beyond its threshold and `count` below it.

    Args:
        sampled_seconds: the time between two samples, unless the scenario sets its own.
    """
    random = np.random.default_rng([seed, zlib.crc32(scenario.rule_id.encode())])
    for should_fire, span in ((True, POSITIVE), (False, NEAR_MISS)):
        for _ in range(count):
            factor = float(random.uniform(*span))
            yield _one(scenario, should_fire, factor, random, sampled_seconds)


def score(runs: list[Labelled], fired: list[bool]) -> Score:
    """Count how often a rule was right. `fired`: the verdict on each run."""
    pairs = list(zip(runs, fired, strict=True))
    return Score(
        positives=sum(run.should_fire for run in runs),
        near_misses=sum(not run.should_fire for run in runs),
        true_alarms=sum(run.should_fire and is_fired for run, is_fired in pairs),
        false_alarms=sum(not run.should_fire and is_fired for run, is_fired in pairs),
    )


def _one(
    scenario: Scenario,
    should_fire: bool,
    factor: float,
    random: np.random.Generator,
    sampled_seconds: float,
) -> Labelled:
    world = World(
        random,
        resolution_seconds=sampled_seconds,
        seconds=float(random.uniform(1500, 3600)),
        nodes=int(random.integers(1, 3)),
        begin_seconds=float(random.uniform(20, 50)),
        step_seconds=float(random.uniform(0.4, 1.5)),
        epochs=int(random.integers(4, 9)),
        gpu_pct=float(random.uniform(84, 92)),
        cpu_pct=float(random.uniform(35, 60)),
    )
    confounder = scenario.confounders[random.integers(len(scenario.confounders))]
    scenario.set_up(world, factor)
    confounder(world)
    name = confounder.__name__
    return Labelled(scenario.rule_id, should_fire, factor, name, world.frame())

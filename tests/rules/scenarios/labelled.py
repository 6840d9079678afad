"""Labelled runs of each rule, and how well verdicts agree with their labels."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rules.frame import RunFrame
from tests.rules.scenarios import confounders as also
from tests.rules.scenarios import sagemaker, time
from tests.rules.scenarios.confounders import Confounder
from tests.rules.scenarios.world import World

POSITIVE, NEAR_MISS = (1.1, 2.0), (0.5, 0.9)
PAUSES = (also.saves, also.evaluates)
SIMPLE = (also.one_busy_core, also.slow_start, also.short_tail)
CALM = (*SIMPLE, *PAUSES)
GPUS = (also.an_unused_gpu, also.breathing_memory, also.controller_at_work)
ON_GPU = (*CALM, *GPUS)
DATA = (also.waits_for_data,)


@dataclass(frozen=True)
class Scenario:
    """How a run becomes one of a rule, and what else may go on in it."""

    rule_id: str
    change: Callable[[World, float], None]
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
    """Of one rule."""

    positives: int
    near_misses: int
    found: int
    false_alarms: int

    @property
    def precision(self) -> float:
        fired = self.found + self.false_alarms
        return self.found / fired if fired else 0.0

    @property
    def recall(self) -> float:
        return self.found / self.positives if self.positives else 0.0


SCENARIOS = (
    Scenario("batch_size", sagemaker.batch_size, (*CALM, also.controller_at_work)),
    Scenario("checkpoint_interval", time.checkpoint_interval, (*SIMPLE, *GPUS)),
    Scenario("checkpoint_missing", time.checkpoint_missing, (*SIMPLE, *GPUS, *DATA)),
    Scenario("checkpoint_stalls", time.checkpoint_stalls, (*SIMPLE, *GPUS, *DATA)),
    Scenario("cpu_bottleneck", sagemaker.cpu_bottleneck, (*ON_GPU, *DATA)),
    Scenario("cpu_oversized", sagemaker.cpu_oversized, (*CALM, *DATA)),
    Scenario("dataloader", sagemaker.dataloader, ON_GPU),
    Scenario("epoch_gaps", time.epoch_gaps, (*ON_GPU, *DATA)),
    Scenario("evaluation_share", time.evaluation_share, (*SIMPLE, also.saves, *GPUS, *DATA)),
    Scenario("failed_late", time.failed_late, (*SIMPLE, *GPUS, *DATA)),
    Scenario("gpu_memory_increase", sagemaker.gpu_memory_increase, (*ON_GPU, *DATA)),
    Scenario("hung", time.hung, (*CALM, also.an_unused_gpu, *DATA)),
    Scenario("idle_notebook", time.idle_notebook, SIMPLE[:1]),
    Scenario("idle_tail", time.idle_tail, (*SIMPLE[:2], *PAUSES, *GPUS, *DATA)),
    Scenario("input_bound", sagemaker.input_bound, ON_GPU),
    Scenario("io_bottleneck", sagemaker.io_bottleneck, (*ON_GPU, *DATA)),
    Scenario("load_balancing", sagemaker.load_balancing, (*ON_GPU, *DATA)),
    Scenario("low_gpu_utilization", sagemaker.low_gpu_utilization, (*CALM, *DATA)),
    Scenario("max_initialization_time", sagemaker.max_initialization_time, CALM[2:]),
    Scenario("no_progress", time.no_progress, (*ON_GPU, *DATA)),
    Scenario("repeated_failures", time.repeated_failures, (*ON_GPU, *DATA)),
    Scenario("startup_breakdown", time.startup_breakdown, (*SIMPLE[2:], *PAUSES, *GPUS, *DATA)),
    Scenario("step_outlier", sagemaker.step_outlier, (*SIMPLE, *DATA)),
    Scenario("unused_gpus", time.unused_gpus, (*CALM, *GPUS[1:], *DATA)),
)


def labelled(scenario: Scenario, seed: int, count: int) -> Iterator[Labelled]:
    """`count` runs of the rule beyond its threshold and `count` below it."""
    random = np.random.default_rng([seed, zlib.crc32(scenario.rule_id.encode())])
    for should_fire, span in ((True, POSITIVE), (False, NEAR_MISS)):
        for _ in range(count):
            yield _one(scenario, should_fire, float(random.uniform(*span)), random)


def score(runs: list[Labelled], fired: list[bool]) -> Score:
    """`fired`: the verdict on each run."""
    pairs = list(zip(runs, fired, strict=True))
    return Score(
        positives=sum(run.should_fire for run in runs),
        near_misses=sum(not run.should_fire for run in runs),
        found=sum(run.should_fire and is_fired for run, is_fired in pairs),
        false_alarms=sum(not run.should_fire and is_fired for run, is_fired in pairs),
    )


def _one(
    scenario: Scenario, should_fire: bool, factor: float, random: np.random.Generator
) -> Labelled:
    world = World(
        random,
        seconds=float(random.uniform(1500, 3600)),
        nodes=int(random.integers(1, 3)),
        begin_seconds=float(random.uniform(20, 50)),
        step_seconds=float(random.uniform(0.4, 1.5)),
        epochs=int(random.integers(4, 9)),
        gpu_pct=float(random.uniform(84, 92)),
        cpu_pct=float(random.uniform(35, 60)),
    )
    confounder = scenario.confounders[random.integers(len(scenario.confounders))]
    scenario.change(world, factor)
    confounder(world)
    name = confounder.__name__
    return Labelled(scenario.rule_id, should_fire, factor, name, world.frame())

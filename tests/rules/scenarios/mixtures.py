"""Runs with two to four causes of waste at once, and how much time each of them takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rules.frame import RunFrame
from tests.rules.scenarios.restarts import Failure, fails, stop
from tests.rules.scenarios.world import Node, Pause, World

SHORTEST_SECONDS, LONGEST_SECONDS = 20.0, 7200.0
FAIR_EVALUATION = 0.1
"""The share of the loop that an evaluation may take: nobody calls it waste."""
RECOVERABLE_IDLE = 0.7
"""The most, as a share of the time that a busy GPU idles for no reason that is told."""
FIRED_BY: Mapping[str, frozenset[str]] = {
    "waiting": frozenset({"input_bound", "dataloader"}),
    "checkpoints": frozenset({"checkpoint_stalls", "checkpoint_interval"}),
    "evaluation": frozenset({"evaluation_share"}),
    "gaps": frozenset({"epoch_gaps"}),
    "start": frozenset({"startup_breakdown", "max_initialization_time"}),
    "tail": frozenset({"idle_tail"}),
    "unused": frozenset({"unused_gpus"}),
    "standstill": frozenset({"hung", "epoch_gaps"}),
    "relapse": frozenset({"lost_work", "failed_late", "repeated_failures"}),
    "half_busy": frozenset({"low_gpu_utilization", "batch_size"}),
}
"""The rules that name a cause."""
STANDING_PCT = 0.5
"""The percent of the cores in use while no process of the run works."""
Cause = Callable[["Mixture", float], None]


@dataclass
class Mixture:
    """A run that is being made, and what it wastes."""

    world: World
    truth: dict[str, float]
    """Cause -> seconds of the run, at its price, that a fix could give back."""

    @property
    def loop_seconds(self) -> float:
        world = self.world
        return world.seconds - world.begin_seconds - world.tail_seconds

    @property
    def steps_seconds(self) -> float:
        between = sum(pause.seconds for pause in self.world.pauses) * self.world.epochs
        return self.loop_seconds - between


def starts(mixture: Mixture, seconds: float) -> None:
    mixture.world.begin_seconds = mixture.truth["start"] = seconds


def idles_at_end(mixture: Mixture, seconds: float) -> None:
    mixture.world.tail_seconds = mixture.truth["tail"] = seconds


def saves(mixture: Mixture, seconds: float) -> None:
    mixture.world.pauses.append(Pause("checkpoint", seconds / mixture.world.epochs, gpu_pct=1.0))
    mixture.truth["checkpoints"] = seconds


def evaluates(mixture: Mixture, seconds: float) -> None:
    each = seconds / mixture.world.epochs
    mixture.world.pauses.append(Pause("evaluate", each, gpu_pct=60.0))
    mixture.truth["evaluation"] = max(seconds - FAIR_EVALUATION * mixture.loop_seconds, 0.0)


def pauses(mixture: Mixture, seconds: float) -> None:
    """Pause after each epoch, for a reason that nobody tells. After the last one it is a tail."""
    each = seconds / mixture.world.epochs
    mixture.world.pauses.append(Pause("gap", each, gpu_pct=0.0, is_told=False))
    mixture.truth["gaps"] = seconds - each
    mixture.truth["tail"] = mixture.world.tail_seconds + each


def stands_still(mixture: Mixture, seconds: float) -> None:
    """Pause once, in the midst of an epoch: a deadlock that a timeout ends."""
    world = mixture.world
    epoch = mixture.steps_seconds / world.epochs
    seconds = min(seconds, 0.6 * epoch)
    at = world.begin_seconds + mixture.loop_seconds / world.epochs + 0.2 * epoch

    def change(node: Node) -> None:
        stop(node, at, at + seconds)
        inside = (node.times >= at) & (node.times < at + seconds)
        node.series["host.cpu_busy_pct"][inside] = STANDING_PCT

    world.changes.append(change)
    mixture.truth["standstill"] = seconds


def relapses(mixture: Mixture, seconds: float) -> None:
    """Fail twice: steps are done again, and the machines wait for a while."""
    world = mixture.world
    down = min(0.02 * world.seconds, 30.0)
    fails(world, [Failure(at * world.seconds, seconds / 2, down) for at in (0.45, 0.75)])
    mixture.truth["relapse"] = seconds + 2 * down


def waits(mixture: Mixture, seconds: float) -> None:
    world, share = mixture.world, seconds / mixture.steps_seconds
    world.wait_share = share

    def change(node: Node) -> None:
        for gpu in range(node.gpus):
            node.series[f"gpu{gpu}.busy_pct"][node.working] *= 1 - share

    world.changes.append(change)
    mixture.truth["waiting"] = seconds


def is_half_busy(mixture: Mixture, seconds: float) -> None:
    """Let the GPUs idle between their kernels, for a reason that nobody tells: two fifths of the
    time at least, since less is no finding.
    """
    working = mixture.steps_seconds * (1 - mixture.world.wait_share)
    seconds = min(max(seconds, 0.4 * working), 0.95 * working)
    mixture.world.gpu_pct = 100 * (1 - seconds / working)
    mixture.world.gpu_memory_pct = 80.0
    mixture.truth["half_busy"] = RECOVERABLE_IDLE * seconds


def leaves_a_gpu(mixture: Mixture, seconds: float) -> None:
    """Add one GPU more, on which nothing runs: all that the others waste is a smaller part of the
    cost.
    """
    world = mixture.world
    number, world.gpus = world.gpus, world.gpus + 1

    def change(node: Node) -> None:
        for name, value in (("busy_pct", 0.0), ("memory_used_bytes", 4e6), ("power_watts", 55.0)):
            node.series[f"gpu{number}.{name}"] = np.full(len(node.times), value)

    world.changes.append(change)
    used = number / world.gpus
    mixture.truth = {cause: used * s for cause, s in mixture.truth.items()}
    mixture.truth["unused"] = world.seconds / world.gpus


ON_CORES: tuple[Cause, ...] = (
    starts,
    idles_at_end,
    saves,
    evaluates,
    pauses,
    stands_still,
    relapses,
    waits,
)
"""The causes in the order of their making: what is left of the loop decides the next ones."""
ON_GPUS: tuple[Cause, ...] = (*ON_CORES, is_half_busy, leaves_a_gpu)
EXCLUDING = tuple({relapses, other} for other in (pauses, saves, waits, is_half_busy, stands_still))
"""A failure moves what follows it, so that the truth of these isn't known."""


def mixture(seed: int) -> tuple[RunFrame, dict[str, float]]:
    """Return a run of 20 s to 2 h on 1 to 3 nodes, with GPUs or without, and its waste by cause."""
    random = np.random.default_rng([20261128, seed])
    while True:
        made = _drawn(random)
        if max(made.truth.values()) >= max(6.0, 0.11 * made.world.seconds):
            return made.world.frame(), made.truth


def _drawn(random: np.random.Generator) -> Mixture:
    seconds = float(np.exp(random.uniform(np.log(SHORTEST_SECONDS), np.log(LONGEST_SECONDS))))
    gpus = int(random.choice([0, 1, 2, 4]))
    world = World(
        random,
        seconds=seconds,
        resolution_seconds=0.5 if seconds < 600 else 1.0,
        nodes=int(random.choice([1, 1, 1, 2, 3])),
        gpus=gpus,
        begin_seconds=min(0.03 * seconds, 20.0),
        tail_seconds=min(0.01 * seconds, 8.0),
        step_seconds=float(random.uniform(0.2, 0.6)) * min(seconds / 200, 2.0),
        epochs=int(random.integers(3, 7)),
        gpu_pct=float(random.uniform(92, 97)),
        cpu_pct=float(random.uniform(35, 60)) if gpus else float(random.uniform(88, 96)),
        wait_share=0.0,
    )
    made = Mixture(world, {})
    known = ON_GPUS if gpus else ON_CORES
    chosen = _chosen(random, known if seconds >= 900 else [c for c in known if c is not relapses])
    shares = random.uniform(0.06, 1.0, len(chosen))
    shares *= random.uniform(0.25, 0.65) / shares.sum()
    for cause, share in zip(chosen, np.maximum(shares, 0.05), strict=True):
        cause(made, float(share) * seconds)
    world.changes.append(_rest_at_ends)
    return made


def _chosen(random: np.random.Generator, known: tuple[Cause, ...] | list[Cause]) -> list[Cause]:
    while True:
        count = int(random.integers(2, 5))
        places = sorted(random.choice(len(known), count, replace=False).tolist())
        chosen = [known[place] for place in places]
        if not any(pair <= set(chosen) for pair in EXCLUDING):
            return chosen


def _rest_at_ends(node: Node) -> None:
    """Let no process work after the last step."""
    if not len(node.steps):
        return
    end = float((node.steps["start_seconds"] + node.steps["duration_seconds"]).max())
    ends = [at for at, kind, _ in node.events if kind in ("phase_end", "checkpoint")]
    after = node.times >= max([end, *ends])
    node.series["host.cpu_busy_pct"][after] = STANDING_PCT
    cores = node.series["host.cpu_busy_pct"] / 100 * node.vcpus * 0.95
    cores[node.series["host.cpu_busy_pct"] <= STANDING_PCT] = 0.01
    step = node.times[1] - node.times[0]
    node.series["tree.cpu_seconds_total"] = np.cumsum(cores) * step

"""Thirteen kinds of healthy runs, in which no rule may find anything, from the first minute on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rules.engine import evaluate
from rules.frame import RunFrame
from tests.rules.scenarios import confounders
from tests.rules.scenarios.restarts import Failure, fails
from tests.rules.scenarios.world import Node, Pause, World

Kind = Callable[[World], None]


def on_one_gpu(world: World) -> None:
    world.gpus = 1


def on_eight_gpus(world: World) -> None:
    world.gpus = world.ranks = 8
    world.vcpus, world.memory_gib = 96, 384


def on_several_nodes(world: World) -> None:
    world.nodes = int(world.random.integers(2, 5))
    world.ranks = world.gpus


def on_cores(world: World) -> None:
    """Let all cores work."""
    world.gpus = 0
    world.cpu_pct = world.random.uniform(88, 96)


def evaluates_and_saves(world: World) -> None:
    """Pause after each epoch: 2 to 4 % of the run in evaluation, and two seconds for a
    checkpoint.
    """
    seconds = world.random.uniform(0.02, 0.04) * world.seconds / world.epochs
    world.pauses += [
        Pause("evaluate", seconds, gpu_pct=world.random.uniform(55, 80)),
        Pause("checkpoint", 2.0, gpu_pct=2.0),
    ]


def without_the_hook(world: World) -> None:
    """Record no steps and no phases: only the machine and the processes are seen."""
    world.with_steps = False
    world.gpu_pct = world.random.uniform(86, 97)


def that_compile_first(world: World) -> None:
    """Let the first step take a minute or two."""
    took = world.random.uniform(40, 110)
    world.begin_seconds += took

    def change(node: Node) -> None:
        first = node.steps.groupby("rank")["start_seconds"].idxmin()
        node.steps.loc[first, "start_seconds"] -= took
        node.steps.loc[first, "duration_seconds"] += took

    world.changes.append(change)


def whose_gpus_breathe(world: World) -> None:
    """Let utilisation and memory go up and down; the memory controller's activity, too."""
    period = world.random.uniform(15, 60)

    def change(node: Node) -> None:
        wave = 9.0 * np.sin(node.times / period * 2 * np.pi)
        for gpu in range(node.gpus):
            busy = node.series[f"gpu{gpu}.busy_pct"]
            busy[node.working] = np.clip(busy[node.working] + wave[node.working], 0, 100)

    world.changes.append(change)
    confounders.breathing_memory(world)
    confounders.controller_at_work(world)


def seen_in_part(world: World) -> None:
    """Leave out a tenth of the samples, some of it for a minute at a time."""

    def change(node: Node) -> None:
        gone = world.random.random(len(node.times)) < 0.05
        minutes = max(int(0.05 * node.times[-1] / 60), 1)
        for start in world.random.uniform(0.1, 0.9, minutes) * node.times[-1]:
            gone |= (node.times >= start) & (node.times < start + 60)
        for name in node.series:
            node.series[name][gone] = np.nan

    world.changes.append(change)


def that_log_a_noisy_loss(world: World) -> None:
    """Log a loss that improves to the end, by less than its noise from one value to the next."""
    rate = world.random.uniform(0.8, 2.5)

    def change(node: Node) -> None:
        if node.key != "n1":
            return
        first, last = node.steps["start_seconds"].min(), node.steps["start_seconds"].max()
        for at in np.linspace(first, last, 400):
            loss = 2.5 * np.exp(-rate * (at - first) / (last - first)) + 0.4
            loss *= 1 + 0.1 * world.random.normal()
            node.events.append((at, "metric", {"name": "loss", "value": float(loss), "rank": 0}))

    world.changes.append(change)


def interrupted_twice(world: World) -> None:
    """Fail twice; each time the run goes on within a minute, and does a few steps again."""
    draw = world.random.uniform
    fails(
        world,
        [
            Failure(share * world.seconds, draw(0.001, 0.005) * world.seconds, draw(10, 50))
            for share in (0.3, 0.7)
        ],
    )


KINDS: tuple[Kind, ...] = (
    on_one_gpu,
    on_eight_gpus,
    on_several_nodes,
    on_cores,
    evaluates_and_saves,
    confounders.skewed_steps,
    confounders.busy_neighbours,
    without_the_hook,
    that_compile_first,
    whose_gpus_breathe,
    seen_in_part,
    that_log_a_noisy_loss,
    interrupted_twice,
)


def healthy(kind: Kind, seed: int, resolution_seconds: float = 1.0) -> RunFrame:
    """Return a run of half an hour to an hour and a half."""
    random = np.random.default_rng([20261122, KINDS.index(kind), seed])
    world = World(
        random,
        resolution_seconds=resolution_seconds,
        seconds=float(random.uniform(1800, 5400)),
        begin_seconds=float(random.uniform(10, 45)),
        step_seconds=float(random.uniform(0.3, 2.0)),
        epochs=int(random.integers(3, 9)),
        gpu_pct=float(random.uniform(84, 94)),
        cpu_pct=float(random.uniform(35, 60)),
    )
    kind(world)
    return world.frame()


def findings(run: RunFrame) -> Mapping[str, str]:
    """Return what fires: the rule's id -> its sentence."""
    verdicts = {each.rule_id: each.verdict for each in evaluate(run, {})}
    return {rule: v.summary for rule, v in verdicts.items() if v.state == "fired"}

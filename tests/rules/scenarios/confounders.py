"""Activity in the same run that belongs to another rule and must not change the verdict."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rules.scenarios.world import GIB, Node, Pause, World

Confounder = Callable[[World], None]


def one_busy_core(world: World) -> None:
    """Keep a single core at 100 %, the others nearly idle."""

    def change(node: Node) -> None:
        for core in range(node.vcpus):
            level = 100.0 if core == 3 else 5.0
            node.series[f"cpu{core}.busy_pct"] = np.full(len(node.times), level)

    world.changes.append(change)


def slow_start(world: World) -> None:
    world.begin_seconds += world.random.uniform(30, 60)


def short_tail(world: World) -> None:
    """Add a tail of half a percent of the run."""
    world.tail_seconds += 0.005 * world.seconds


def saves(world: World) -> None:
    """Save a checkpoint of two seconds after each epoch."""
    world.pauses.append(Pause("checkpoint", 2.0, gpu_pct=2.0))


def evaluates(world: World) -> None:
    """Evaluate for 2 % of the run, on a half busy GPU."""
    world.pauses.append(Pause("evaluate", 0.02 * world.seconds / world.epochs, gpu_pct=50.0))


def waits_for_data(world: World) -> None:
    world.wait_share = world.random.uniform(0.2, 0.4)


def an_unused_gpu(world: World) -> None:
    """Add one more GPU that nothing runs on."""
    number, world.gpus = world.gpus, world.gpus + 1

    def change(node: Node) -> None:
        for name, value in (("busy_pct", 0.0), ("memory_used_bytes", 4e6), ("power_watts", 55.0)):
            node.series[f"gpu{number}.{name}"] = np.full(len(node.times), value)

    world.changes.append(change)


def breathing_memory(world: World) -> None:
    """Let the GPUs' memory in use go up and down by three points every two minutes."""

    def change(node: Node) -> None:
        wave = 1 + 0.05 * np.sin(node.times / 120 * 2 * np.pi)
        for name in [name for name in node.series if name.endswith("memory_used_bytes")]:
            node.series[name] = node.series[name] * wave

    world.changes.append(change)


def controller_at_work(world: World) -> None:
    """Record the memory controller's activity, which is no footprint: 0 and 97 in turn."""

    def change(node: Node) -> None:
        for gpu in range(node.gpus):
            activity = np.where(node.times // 7 % 2 == 0, 97.0, 0.0)
            node.series[f"gpu{gpu}.memory_controller_busy_pct"] = activity

    world.changes.append(change)


def busy_neighbours(world: World) -> None:
    """Let other people's processes take, in bursts, most of what the run leaves of cores and
    memory.
    """
    share = world.random.uniform(0.5, 0.9)
    period = world.random.uniform(60, 600)

    def change(node: Node) -> None:
        bursts = np.where(node.times % period < period / 2, share, share / 3)
        cpu, memory = (
            node.series[f"host.{name}"] for name in ("cpu_busy_pct", "memory_used_bytes")
        )
        node.series["host.cpu_busy_pct"] = cpu + bursts * (100 - cpu)
        node.series["host.memory_used_bytes"] = memory + bursts * (world.memory_gib * GIB - memory)

    world.changes.append(change)


def skewed_steps(world: World) -> None:
    """Use sequences of different lengths: most steps are short, some are several times as long."""
    world.step_skew = world.random.uniform(0.3, 0.7)


PAUSES = (saves, evaluates)
SIMPLE = (one_busy_core, slow_start, short_tail)
CALM = (*SIMPLE, *PAUSES)
GPUS = (an_unused_gpu, breathing_memory, controller_at_work)
ON_GPU = (*CALM, *GPUS)
DATA = (waits_for_data,)
ANYWHERE = (busy_neighbours, skewed_steps)

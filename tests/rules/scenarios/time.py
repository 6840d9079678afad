"""Scenarios of the rules about wasted time. `factor` as in `sagemaker.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.rules.scenarios.world import Node, Pause, World


def idle_tail(world: World, factor: float) -> None:
    """5 minutes, or 3 % of the run and 30 s."""
    world.tail_seconds = min(300.0, max(30.0, 0.03 * world.seconds)) * factor


def unused_gpus(world: World, factor: float) -> None:
    """A GPU whose 99th percentile is at most 2 %."""
    number, world.gpus = world.gpus, world.gpus + 1

    def change(node: Node) -> None:
        noise = world.noise(len(node.times), 0.02)
        node.series[f"gpu{number}.busy_pct"] = np.clip(2 / factor - 0.05 + noise, 0, 100)

    world.changes.append(change)


def hung(world: World, factor: float) -> None:
    """10 minutes without any work, or 5 of spinning at idle power."""
    world.seconds = max(world.seconds, 2700.0)
    spins = world.random.random() < 0.4
    length = (300.0 if spins else 600.0) * factor
    start = world.random.uniform(0.3, 0.9) * (world.seconds - length - 200) + 100

    def change(node: Node) -> None:
        inside = (node.times >= start) & (node.times < start + length)
        ends = node.steps["start_seconds"] + node.steps["duration_seconds"]
        node.steps = node.steps[(ends <= start) | (node.steps["start_seconds"] >= start + length)]
        node.events = [e for e in node.events if not start <= e[0] < start + length]
        cpu = node.series["host.cpu_busy_pct"]
        cpu[inside] = 4.0 if spins else 2.0
        _count_cores(world, node)
        for gpu in range(node.gpus):
            if node.series[f"gpu{gpu}.busy_pct"].any():
                node.series[f"gpu{gpu}.busy_pct"][inside] = 99.0 if spins else 0.0
                node.series[f"gpu{gpu}.power_watts"][inside] = 75.0 if spins else 60.0

    world.changes.append(change)


def idle_notebook(world: World, factor: float) -> None:
    """An hour in which neither GPUs nor processes do anything; no steps are told."""
    world.with_steps = False
    length = 3600.0 * factor
    world.seconds = length + world.random.uniform(1500, 3000)
    start = world.random.uniform(0.1, 0.9) * (world.seconds - length)

    def change(node: Node) -> None:
        inside = (node.times >= start) & (node.times < start + length)
        node.series["host.cpu_busy_pct"] = np.where(inside, 0.6, 30.0)
        for gpu in range(node.gpus):
            busy = np.where(inside, 0.0, 40 + world.noise(len(node.times), 5))
            node.series[f"gpu{gpu}.busy_pct"] = np.clip(busy, 0, 100)
        own = np.where(inside, 0.01, 2.0) * world.resolution_seconds
        node.series["tree.cpu_seconds_total"] = np.cumsum(own)

    world.changes.append(change)


def checkpoint_stalls(world: World, factor: float) -> None:
    """5 % of the run in at least three checkpoints, told or seen by their writing."""
    each = 0.05 * factor * world.seconds / world.epochs
    told = world.random.random() < 0.6
    world.pauses.append(Pause("checkpoint", each, gpu_pct=1.0, is_told=told))
    if not told:
        world.with_steps = False

        def write(node: Node) -> None:
            idle = ~node.working & (node.times > world.begin_seconds)
            idle &= node.times < world.seconds - world.tail_seconds
            written = np.where(idle, 2e8, 4e5) * world.resolution_seconds
            node.series["disk.written_bytes_total"] = np.cumsum(written)

        world.changes.append(write)


def checkpoint_missing(world: World, factor: float) -> None:
    """Two hours of work and nothing saved."""
    world.resolution_seconds, world.step_seconds = 5.0, 4.0
    world.seconds = world.begin_seconds + 7200 * factor


def checkpoint_interval(world: World, factor: float) -> None:
    """A third of the best interval, or three times it: eight nodes, checkpoints of a minute."""
    world.nodes, world.resolution_seconds, world.with_steps = 8, 60.0, False
    world.epochs, world.step_seconds = 4, 60.0
    best = math.sqrt(2 * 60 * 720 * 3600 / world.nodes)
    often = world.random.random() < 0.5
    interval = best / 3 / factor if often else best * 3 * factor
    count = 12 if often else 4
    world.seconds = world.begin_seconds + (count + 0.5) * interval

    def change(node: Node) -> None:
        for number in range(1, count + 1):
            at = world.begin_seconds + number * interval + world.random.uniform(-5, 5)
            node.events.append((at, "checkpoint", {"seconds": 60.0, "rank": 0}))

    world.changes.append(change)


def epoch_gaps(world: World, factor: float) -> None:
    """2 % of the run between epochs; a near miss may be longer, but told as evaluation."""
    world.step_seconds = world.random.uniform(0.4, 0.8)
    told = factor < 1 and world.random.random() < 0.4
    share = 0.04 if told else 0.02 * factor
    each = share * world.seconds / (world.epochs - 1)
    world.pauses.append(Pause("evaluate" if told else "gap", each, gpu_pct=1.0, is_told=told))


def evaluation_share(world: World, factor: float) -> None:
    """20 % of the loop in evaluation."""
    loop = world.seconds - world.begin_seconds - world.tail_seconds
    world.pauses.append(Pause("evaluate", 0.2 * factor * loop / world.epochs, gpu_pct=60.0))


def startup_breakdown(world: World, factor: float) -> None:
    """10 % of the run, or 10 minutes."""
    if world.random.random() < 0.5:
        world.begin_seconds = 0.1 * factor * world.seconds
    else:
        world.begin_seconds = 600 * factor
        world.seconds = 12 * world.begin_seconds
        world.resolution_seconds, world.step_seconds = 2.0, 4.0


def failed_late(world: World, factor: float) -> None:
    """Half an hour, and 5 minutes since the last checkpoint."""
    world.ending = "failed"
    if world.random.random() < 0.5:
        world.seconds = 1800 * factor
    else:
        world.seconds = 3600.0
        at = world.seconds - 300 * factor
        saved: tuple[float, str, dict[str, Any]] = (at, "checkpoint", {"seconds": 2.0, "rank": 0})
        world.changes.append(lambda node: node.events.append(saved))


def repeated_failures(world: World, factor: float) -> None:
    """Three failures in one run."""
    count = math.ceil(3 * factor) if factor > 1 else math.floor(3 * factor)

    def change(node: Node) -> None:
        for number in range(1, count + 1):
            at = number * world.seconds / (count + 1)
            node.events.append((at, "process_exit", {"exit_code": 1}))
            node.events.append((at + 20, "process_start", {}))

    world.changes.append(change)


def no_progress(world: World, factor: float) -> None:
    """No better for 20 % of the run, with at least five values."""
    until = 1 - 0.2 * factor

    def change(node: Node) -> None:
        for done in np.linspace(0.02, 0.999, 60):
            left = max(1 - done / until, 0.0)
            value = 0.4 + 1.6 * left + abs(float(world.random.normal(0, 0.003)))
            data = {"name": "val_loss", "value": value, "step": int(1000 * done), "rank": 0}
            node.events.append((float(done) * world.seconds, "metric", data))

    world.changes.append(change)


def _count_cores(world: World, node: Node) -> None:
    cores = node.series["host.cpu_busy_pct"] / 100 * node.vcpus * 0.95
    node.series["tree.cpu_seconds_total"] = np.cumsum(cores) * world.resolution_seconds

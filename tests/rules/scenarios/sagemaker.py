"""Scenarios of the rules that SageMaker has as well, and of the first two of our own.

`factor` is how far beyond its threshold a run is: 1.1 to 2 for a positive, 0.5 to 0.9 for a near
miss. Where a threshold is a lower one, the value is the threshold over the factor.
"""

from __future__ import annotations

import numpy as np

from tests.rules.scenarios.world import CARD_BYTES, Floats, Node, World


def input_bound(world: World, factor: float) -> None:
    """15 % of the step time."""
    world.wait_share = 0.15 * factor
    world.gpu_pct = 90 * (1 - world.wait_share)


def cpu_oversized(world: World, factor: float) -> None:
    """CPU below 30 % and memory below 35 %; a near miss is above one of them."""
    world.gpus = 0
    cpu, memory = 30 / factor, 35 / factor
    if factor < 1:
        cpu, memory = [(cpu, 15.0), (12.0, memory)][world.random.integers(2)]
    world.host_memory_pct = memory - 1.2  # its 99th percentile, at a deviation of 0.5
    world.changes.append(lambda node: _set_p95(node, "host.cpu_busy_pct", cpu))


def low_gpu_utilization(world: World, factor: float) -> None:
    """95th percentile below 70 %, or 5th below 10 %."""
    if world.random.random() < 0.5:
        level = min(70 / factor, 99.0)
        world.changes.append(lambda node: _set_gpu_p95(node, level))
    else:
        low = 10 / factor

        def fits(node: Node) -> None:
            for gpu in range(node.gpus):
                busy = node.series[f"gpu{gpu}.busy_pct"]
                idle = node.working & (node.times % 10 < 1)
                busy[idle] = np.clip(low + world.noise(int(idle.sum()), 0.3), 0, 100)

        world.changes.append(fits)


def batch_size(world: World, factor: float) -> None:
    """CPU, GPU and GPU memory all below 70 %; a near miss is above one of them."""
    above = min(70 / factor, 99.0)
    levels = [above] * 3
    if factor < 1:
        levels = [35.0] * 3
        levels[world.random.integers(3)] = above
    cpu, gpu, memory = levels

    def change(node: Node) -> None:
        _set_p95(node, "host.cpu_busy_pct", cpu)
        _set_gpu_p95(node, gpu)
        for number in range(node.gpus):
            node.series[f"gpu{number}.memory_used_bytes"][:] = memory / 100 * CARD_BYTES

    world.changes.append(change)


def cpu_bottleneck(world: World, factor: float) -> None:
    """More than half of the time with the cores above 90 % and the GPUs below 10 %."""
    _bottleneck(world, factor, "host.cpu_busy_pct", threshold=90.0, loaded=97.0)


def io_bottleneck(world: World, factor: float) -> None:
    """More than half of the time with I/O wait above 50 % and the GPUs below 10 %."""
    _bottleneck(world, factor, "host.cpu_iowait_pct", threshold=50.0, loaded=75.0)


def _bottleneck(world: World, factor: float, name: str, threshold: float, loaded: float) -> None:
    share, gpu = min(0.5 * factor, 0.97), 3.0
    if factor < 1:
        share, loaded, gpu = [
            (share, loaded, gpu),
            (0.9, threshold * factor, gpu),
            (0.9, loaded, 10 / factor),
        ][world.random.integers(3)]

    def change(node: Node) -> None:
        stuck = node.working & (world.random.random(len(node.times)) < share)
        count = int(stuck.sum())
        node.series[name][stuck] = np.clip(loaded + world.noise(count, 0.5), 0, 100)
        for number in range(node.gpus):
            if node.series[f"gpu{number}.busy_pct"].any():
                held = np.clip(gpu + world.noise(count, 0.3), 0, 100)
                node.series[f"gpu{number}.busy_pct"][stuck] = held

    world.changes.append(change)


def gpu_memory_increase(world: World, factor: float) -> None:
    """More than 5 points from the start of the work to its end, as a slope or in stairs."""
    rise, stairs = 5 * factor, world.random.random() < 0.3

    def change(node: Node) -> None:
        when = np.flatnonzero(node.working)
        done = np.clip((np.arange(len(node.times)) - when[0]) / (when[-1] - when[0]), 0, 1)
        done = np.floor(done * 4.999) / 4 if stairs else done
        for number in range(world.gpus):
            node.series[f"gpu{number}.memory_used_bytes"] += rise * done / 100 * CARD_BYTES

    world.changes.append(change)


def load_balancing(world: World, factor: float) -> None:
    """A distance of 0.2: one GPU idles for a part of the time."""
    idle = _share_for_distance(0.2 * factor)

    def change(node: Node) -> None:
        if node.key == "n1":
            idles = node.working & (world.random.random(len(node.times)) < idle)
            low = np.clip(12 + world.noise(int(idles.sum()), 2), 0, 100)
            node.series["gpu1.busy_pct"][idles] = low

    world.changes.append(change)


def step_outlier(world: World, factor: float) -> None:
    """More than 10 outliers, 1.2 to 3 times as long as the others."""
    count = int(np.ceil(10 * factor)) if factor > 1 else int(10 * factor)

    def change(node: Node) -> None:
        rows = world.random.choice(np.arange(5, len(node.steps)), count, replace=False)
        times = world.random.uniform(1.2, 3.0, count)
        durations = node.steps["duration_seconds"].to_numpy(copy=True)
        durations[rows] *= times
        starts = node.steps["start_seconds"].iloc[0] + np.concatenate(
            [[0.0], np.cumsum(durations[:-1])]
        )
        node.steps = node.steps.assign(duration_seconds=durations, start_seconds=starts)

    world.pauses.clear()
    world.changes.append(change)


def max_initialization_time(world: World, factor: float) -> None:
    """More than 20 minutes before the first step, or the first use of a GPU."""
    world.begin_seconds = 1200 * factor
    world.seconds = 5400.0
    world.with_steps = world.random.random() < 0.5


def dataloader(world: World, factor: float) -> None:
    """Fewer than 70 % or more than 200 % of the cores; or a wait of 10 % that makes it matter."""
    world.vcpus = 64
    few = world.random.random() < 0.5
    workers = 0.7 / factor * world.vcpus if few else 2.0 * factor * world.vcpus
    world.wait_share = world.random.uniform(0.13, 0.3)
    if factor < 1 and world.random.random() < 0.5:
        workers, world.wait_share = 0.3 * world.vcpus, 0.1 * factor
    counted = world.random.random() < 0.5
    number = int(workers) if few == (factor > 1) else int(np.ceil(workers))

    def change(node: Node) -> None:
        node.events.append((world.begin_seconds, "loader", {"workers": number, "rank": 0}))
        if counted:
            node.series["workers.processes"] = np.full(len(node.times), float(number))

    world.changes.append(change)


def _set_p95(node: Node, name: str, level: float) -> None:
    """Shifted so that its 95th percentile at work is at `level`."""
    values = node.series[name]
    shift = level - float(np.percentile(values[node.working], 95))
    node.series[name] = np.clip(values + shift, 0, 100)


def _set_gpu_p95(node: Node, level: float) -> None:
    for number in range(node.gpus):
        name = f"gpu{number}.busy_pct"
        if node.series[name].any():
            busy = node.series[name].copy()
            _set_p95(node, name, level)
            node.series[name][busy == 0] = 0.0


def _share_for_distance(wanted: float) -> float:
    """How much of the time one of two alike GPUs must be elsewhere, to be that far apart."""

    def distance(share: Floats) -> Floats:
        rest = 1 - share
        first = -np.log(1 - share / 2)
        second = rest * np.log(rest / (1 - share / 2)) + share * np.log(2)
        return np.asarray(np.sqrt((first + second) / 2))

    shares = np.linspace(1e-4, 0.999, 5000)
    return float(np.interp(wanted, distance(shares), shares))

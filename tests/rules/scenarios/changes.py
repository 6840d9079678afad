"""Changes to a synthetic run that the scenarios of several rules share."""

from __future__ import annotations

import numpy as np

from tests.rules.scenarios.world import Node, World


def bottleneck(world: World, factor: float, name: str, threshold: float, loaded: float) -> None:
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


def set_p95(node: Node, name: str, level: float) -> None:
    """Shift a series so that its 95th percentile at work is at `level`."""
    values = node.series[name]
    shift = level - float(np.percentile(values[node.working], 95))
    node.series[name] = np.clip(values + shift, 0, 100)


def set_gpu_p95(node: Node, level: float) -> None:
    for number in range(node.gpus):
        name = f"gpu{number}.busy_pct"
        if node.series[name].any():
            busy = node.series[name].copy()
            set_p95(node, name, level)
            node.series[name][busy == 0] = 0.0

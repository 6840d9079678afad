"""Failures of a run, after which it continues from a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.rules.scenarios.world import Node, World


@dataclass(frozen=True)
class Failure:
    at_seconds: float
    lost_seconds: float
    """The seconds before it of steps that are done again."""
    down_seconds: float
    """The seconds from it to the next step."""
    is_known: bool = True
    """The step at which the run resumes is told."""


def fails(world: World, failures: list[Failure]) -> None:
    """Let the launcher start the processes again. The time stays as it is: later steps have other
    numbers.
    """

    def change(node: Node) -> None:
        rank = int(node.steps["rank"].min()) if len(node.steps) else 0
        node.events.append((0.0, "rank", {"rank": rank, "pid": 1, "restarts": 0}))
        for count, failure in enumerate(failures, 1):
            stop(node, failure.at_seconds, failure.at_seconds + failure.down_seconds)
            began = failure.at_seconds + min(5.0, failure.down_seconds / 2)
            node.events += [
                (failure.at_seconds, "process_exit", {"exit_code": 1}),
                (began, "process_start", {}),
                (began, "rank", {"rank": rank, "pid": 1 + count, "restarts": count}),
            ]
        _tell(node, rank, failures)

    world.changes.append(change)


def stop(node: Node, start: float, end: float) -> None:
    """Let there be no step and no use of GPUs between these seconds."""
    ends = node.steps["start_seconds"] + node.steps["duration_seconds"]
    node.steps = node.steps[(ends <= start) | (node.steps["start_seconds"] >= end)]
    inside = (node.times >= start) & (node.times < end)
    node.working[inside] = False
    for name in node.series:
        if name.endswith("busy_pct") and name.startswith("gpu"):
            node.series[name][inside] = 0.0


def _tell(node: Node, rank: int, failures: list[Failure]) -> None:
    """Tell the number of the step at which each process begins."""
    starts = node.steps["start_seconds"][node.steps["rank"] == rank].to_numpy(dtype=float)
    reached, since, done = 0, 0.0, 0
    if len(starts):
        node.events.append((float(starts[0]), "global_step", {"rank": rank, "step": 0}))
    for failure in failures:
        made = starts[(starts >= since) & (starts < failure.at_seconds)]
        again = int(np.sum(made >= failure.at_seconds - failure.lost_seconds))
        done = reached + len(made) - again
        since = failure.at_seconds + failure.down_seconds
        reached = done
        step = done if failure.is_known else None
        loaded = {"rank": rank, "seconds": failure.down_seconds / 4, "step": step}
        node.events.append((since - 0.01, "restore", loaded))

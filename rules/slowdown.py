"""Measures how much longer a training's steps took than at the training's own best pace.

It stands beside the ledger: the time is part of labels there (mostly `effective`), and says how
much of them a steady pace would have saved. Waits for data have a label of their own and aren't
counted again. Steps that were done again don't count at all.

The best pace is that of the fastest tenth of the steps, in blocks, so that no lucky step sets it. A
block counts as slower from `SLOWER_FROM` times its length: less is noise (ours).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rules.frame import NodeFrame, RunFrame
from rules.global_steps import first_rank
from rules.rule import Window
from rules.training_loop import training_columns

BLOCK_STEPS, MOST_BLOCKS = 30, 200
FEWEST_BLOCKS = 4
BEST_SHARE, SLOWER_FROM = 0.1, 1.05


@dataclass(frozen=True)
class StepStretch:
    """Steps that followed one another."""

    steps: int
    seconds: float
    """The time of all of them, without waits for data."""

    @property
    def pace(self) -> float:
        return self.seconds / self.steps


def blocks_of(frame: RunFrame, lost: Mapping[str, Sequence[Window]]) -> list[StepStretch]:
    """Return the run's blocks, one node at a time: nodes make the same steps together."""
    found: list[StepStretch] = []
    until = float("-inf")
    for node in sorted(frame.nodes.values(), key=_first_start):
        starts, seconds, counts = _steps(node, lost.get(node.key, ()))
        chosen = starts > until
        if chosen.any():
            until = float(starts[chosen][-1])
            found += _blocks(seconds[chosen], counts[chosen])
    return found


def slowdown_share(blocks: Sequence[StepStretch]) -> float | None:
    """Return the share of the time of all steps that is above the best pace; None if there are too
    few steps to tell.
    """
    if len(blocks) < FEWEST_BLOCKS:
        return None
    best = _best(blocks)
    slower = [block for block in blocks if block.pace >= SLOWER_FROM * best]
    above = sum(block.seconds - block.steps * best for block in slower)
    return above / sum(block.seconds for block in blocks)


def _best(blocks: Sequence[StepStretch]) -> float:
    wanted, steps, seconds = BEST_SHARE * sum(block.steps for block in blocks), 0, 0.0
    for block in sorted(blocks, key=lambda block: block.pace):
        steps, seconds = steps + block.steps, seconds + block.seconds
        if steps >= wanted:
            break
    return seconds / steps


def _first_start(node: NodeFrame) -> tuple[float, str]:
    first = node.first_train_seconds
    return (float("inf") if first is None else first), node.key


def _steps(node: NodeFrame, lost: Sequence[Window]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts, seconds without waits and numbers of the lowest rank's steps, without its first."""
    names = ("start_seconds", "duration_seconds", "data_wait_seconds", "count")
    columns = training_columns(node, first_rank(node), *names)
    timed = columns[1] > 0
    order = np.argsort(columns[0][timed])[1:]
    start, length, wait, count = (column[timed][order] for column in columns)
    kept = np.ones(len(start), dtype=bool)
    for window in lost:
        kept &= (start < window.start_seconds - 1e-6) | (start >= window.end_seconds)
    count = np.nan_to_num(count, nan=1.0)
    seconds = (length - np.nan_to_num(wait).clip(0, length)) * count
    return start[kept], seconds[kept], count[kept]


def _blocks(seconds: np.ndarray, counts: np.ndarray) -> list[StepStretch]:
    size = max(BLOCK_STEPS, -(-int(counts.sum()) // MOST_BLOCKS))
    place = (np.cumsum(counts) - counts) // size
    first = np.flatnonzero(np.diff(place, prepend=-1))
    sums = zip(np.add.reduceat(counts, first), np.add.reduceat(seconds, first), strict=True)
    return [StepStretch(int(steps), float(total)) for steps, total in sums if steps and total > 0]

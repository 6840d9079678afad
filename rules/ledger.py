"""The waste ledger: every moment of every GPU has one label, and the labels add up exactly.

This module knows no money. Labels are whole microseconds per GPU (per node without GPUs). A GPU's
labels add up to the time for which its node was held. A label's cost is the node's cost times the
label's share of the GPUs' time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rules.frame import NodeFrame, RunFrame
from rules.grid import Floats, Grid
from rules.labels import TOLD, cpu_seconds, gpu_seconds, node_seconds, run_spans
from rules.ledger_labels import LABELS
from rules.lives import lives
from rules.lost_steps import run_steps
from rules.rule import Values
from rules.stalls import stalled_seconds
from rules.starvation import subtract_starved

VERSION = 9
"""The version of the labels' meaning. 1: a GPU that was more than 10 % busy was all `effective`,
else unclassified, and the machine's work counted as the run's. 2: a GPU whose memory or tensor
cores were busy, but few of its multiprocessors, counted as `low_sm`. 3: steps that were done again,
restarts, loads of checkpoints and compilation had no labels. 4: cores that others used were
`other_programs`, also while the run slept, and no time was `starved`. 5: slow first steps were
`compile`, whether or not something was compiled. 6: only the node that recorded a checkpoint waited
for it. 7: an evaluation whose process had ended lasted until the next one's end. 8: a restarted
process that did nothing until the end was starting, and not idle."""
OF_LIVES = ("lost", "restart", "restore", "initialise", "compile", "first_steps")
"""The labels that failures cost: lost work belongs to the life in which it was done, the rest to
the life that starts with it."""
Microseconds = NDArray[np.int64]
Cuts = NDArray[np.float64]


@dataclass(frozen=True)
class LabelTime:
    """The time of one label on one GPU, or on a node without GPUs (`gpu` is None)."""

    node: str
    gpu: int | None
    label: str
    microseconds: int


@dataclass(frozen=True)
class LifeTime:
    """The time that one of `OF_LIVES` has in one life of the run, over all GPUs of a node."""

    node: str
    label: str
    life: int
    """The life's place in `rules.lives.lives`."""
    microseconds: int


@dataclass(frozen=True)
class WasteLedger:
    entries: tuple[LabelTime, ...]
    """None with 0."""
    of_lives: tuple[LifeTime, ...] = ()
    """None with 0. Those of a node and label sum to its entries."""

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entry.node for entry in self.entries))

    def shares(self, node: str) -> dict[str, Fraction]:
        """Return each label's share of the node's time, over all of its GPUs. The shares add up to
        1 exactly.
        """
        mine = [entry for entry in self.entries if entry.node == node]
        whole = sum(entry.microseconds for entry in mine)
        return {
            label: Fraction(sum(e.microseconds for e in mine if e.label == label), whole)
            for label in LABELS
            if any(e.label == label for e in mine)
        }

    def node_microseconds(self, node: str) -> int:
        """Return how long the node was held; the same for each of its GPUs."""
        by_gpu: dict[int | None, int] = {}
        for entry in self.entries:
            if entry.node == node:
                by_gpu[entry.gpu] = by_gpu.get(entry.gpu, 0) + entry.microseconds
        return max(by_gpu.values(), default=0)

    def held_seconds(self) -> dict[str, dict[str, float]]:
        """Return node -> label -> seconds of the node; a part of its GPUs counts in part."""
        sums_us: dict[str, dict[str, int]] = {node: {} for node in self.nodes}
        gpus: dict[str, set[int | None]] = {node: set() for node in self.nodes}
        for entry in self.entries:
            of_node = sums_us[entry.node]
            of_node[entry.label] = of_node.get(entry.label, 0) + entry.microseconds
            gpus[entry.node].add(entry.gpu)
        return {
            node: {label: us / len(gpus[node]) / 1e6 for label, us in labels.items()}
            for node, labels in sums_us.items()
        }

    def node_seconds(self) -> dict[str, float]:
        """Return label -> its time over all nodes, in whole nodes."""
        node_times_us = dict.fromkeys(LABELS, Fraction(0))
        for node in self.nodes:
            held = self.node_microseconds(node)
            for label, share in self.shares(node).items():
                node_times_us[label] += share * held
        return {label: float(us / 1_000_000) for label, us in node_times_us.items() if us}


def ledger(
    frame: RunFrame,
    parameters: Mapping[str, Values] | None = None,
) -> WasteLedger:
    """Return the ledger of the run as far as it has arrived. Labels that depend on its end (its
    idle tail) stay open until then, and effective time becomes lost when its steps are done again.

    Args:
        parameters: rule id -> the values that differ from its defaults, as for judging the run.

    Raises:
        ValueError: a parameter that a label's rule doesn't know, or a value out of bounds.
    """
    spans = run_spans(frame, parameters or {}, run_steps(frame).lost_seconds())
    book = _Book(np.array([life.ended_seconds for life in lives(frame)[:-1]]))
    for node in frame.nodes.values():
        held = held_microseconds(node, frame)
        if not held:
            continue
        grid, widths = _cells(node, held, frame)
        unseen = sum(end - start for start, end in held) - int(widths.sum())
        shared = node_seconds(node, frame, spans, grid)
        for number in node.allocated_gpus():
            own = gpu_seconds(node, number, frame, spans, grid)
            labels = _of_gpu(own, shared, node, frame, grid)
            book.enter(node.key, number, labels, grid, widths, unseen)
        if not node.allocated_gpus():
            labels = _unstarved(shared, node, frame, grid) | cpu_seconds(node, frame, grid)
            book.enter(node.key, None, labels, grid, widths, unseen)
    return book.ledger()


def _of_gpu(
    own: dict[str, Floats],
    shared: Mapping[str, Floats],
    node: NodeFrame,
    frame: RunFrame,
    grid: Grid,
) -> dict[str, Floats]:
    """Return the labels of a GPU: its node's ranks may wait for cores or data while it works."""
    idle, labels = own.pop("idle"), {**shared, **own}
    labels["starved"] = stalled_seconds(shared["starved"], _free(idle, labels, "starved"), grid)
    labels = _unstarved(labels, node, frame, grid)
    waits = labels["data_stall"]
    labels["data_stall"] = stalled_seconds(waits, _free(idle, labels, "data_stall"), grid)
    return labels


def _free(idle: Floats, seconds: Mapping[str, Floats], label: str) -> Floats:
    """Return the idle time of each cell without the seconds with a label that comes before this
    one.
    """
    before = [seconds[each] for each in LABELS[: LABELS.index(label)] if each in seconds]
    free: Floats = np.clip(idle - np.sum(before, axis=0), 0.0, None)
    return free


def _unstarved(
    seconds: Mapping[str, Floats], node: NodeFrame, frame: RunFrame, grid: Grid
) -> dict[str, Floats]:
    """Return the labels of which the told ones lose the time in which the ranks were starved."""
    told = {label: seconds[label] for label in TOLD if label in seconds}
    starved = seconds["starved"]
    return {**seconds, **subtract_starved(told, starved, node, frame.resolution_seconds, grid)}


def held_microseconds(node: NodeFrame, frame: RunFrame) -> list[tuple[int, int]]:
    """Return when the node was held, overlaps counted once; the whole run if that isn't known."""
    spans = node.intervals or ((0.0, frame.duration_seconds),)
    edges = sorted((round(start * 1e6), round(end * 1e6)) for start, end in spans)
    merged_us: list[tuple[int, int]] = []
    for start, end in edges:
        if end <= start:
            continue
        if merged_us and start <= merged_us[-1][1]:
            merged_us[-1] = (merged_us[-1][0], max(end, merged_us[-1][1]))
        else:
            merged_us.append((start, end))
    return merged_us


def _cells(
    node: NodeFrame, held: list[tuple[int, int]], frame: RunFrame
) -> tuple[Grid, Microseconds]:
    """Return the cells in which the node was held, and how much of each it was.

    It has only those in which something may be known: the rest of the time is a gap without cells.
    """
    width_us = round(frame.resolution_seconds * 1e6)
    ticks = node.judged.index.to_numpy(dtype=float)
    if len(ticks):
        cells = np.unique(np.round(ticks / frame.resolution_seconds).astype(np.int64))
    else:
        cells = np.arange(held[0][0] // width_us, -(-held[-1][1] // width_us))
    widths = np.zeros(len(cells), dtype=np.int64)
    for start, end in held:
        overlap = np.minimum((cells + 1) * width_us, end) - np.maximum(cells * width_us, start)
        widths += np.clip(overlap, 0, None)
    return Grid(cells[widths > 0], frame.resolution_seconds), widths[widths > 0]


class _Book:
    """Takes the entries of one GPU after another."""

    def __init__(self, cuts: Cuts) -> None:
        """`cuts`: the moments between lives."""
        self._cuts = cuts
        self._entries: list[LabelTime] = []
        self._lives: dict[tuple[str, str, int], int] = {}

    def ledger(self) -> WasteLedger:
        of_lives = (LifeTime(*key, us) for key, us in self._lives.items())
        return WasteLedger(tuple(self._entries), tuple(of_lives))

    def enter(
        self,
        node: str,
        gpu: int | None,
        seconds: dict[str, NDArray[np.float64]],
        grid: Grid,
        widths: Microseconds,
        unseen: int,
    ) -> None:
        """Fill each cell label by label; the rest is unclassified. `unseen` is a gap outside of the
        cells."""
        filled = np.zeros(len(widths), dtype=np.int64)
        wanted = np.zeros(len(widths))
        for label in LABELS[:-1]:
            if label not in seconds:
                continue
            wanted = np.minimum(wanted + seconds[label] * 1e6, widths)
            now = np.maximum(np.rint(wanted).astype(np.int64), filled)
            total = int((now - filled).sum()) + (unseen if label == "gap" else 0)
            if total:
                self._entries.append(LabelTime(node, gpu, label, total))
            if total and label in OF_LIVES:
                self._divide(node, label, now - filled, grid)
            filled = now
        if rest := int((widths - filled).sum()):
            self._entries.append(LabelTime(node, gpu, LABELS[-1], rest))

    def _divide(self, node: str, label: str, times: Microseconds, grid: Grid) -> None:
        """Divide the times among the lives. In a cell in which a life ends, lost work comes before
        the end, the rest after it.
        """
        moments = grid.cells * grid.width_seconds
        if label != "lost":
            moments = moments + grid.width_seconds
        places = np.searchsorted(self._cuts, moments, side="right" if label == "lost" else "left")
        sums = np.zeros(len(self._cuts) + 1, dtype=np.int64)
        np.add.at(sums, places, times)
        for life in np.flatnonzero(sums):
            key = node, label, int(life)
            self._lives[key] = self._lives.get(key, 0) + int(sums[life])

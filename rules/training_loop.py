"""The training loop as recorded: steps, their data waits, phases, loaders, gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rules.frame import Flags, NodeFrame, RunFrame
from rules.grid import Floats
from rules.intervals import merged
from rules.rule import Window


def share_pct(part: float, whole: float) -> float | None:
    """Rounded, so that a sum of a thousand equal shares reaches its threshold."""
    return round(100 * part / whole, 6) if whole > 0 else None


@dataclass(frozen=True)
class StepTime:
    """Totals over all ranks without each rank's first step; see `NodeFrame.training_steps`."""

    ranks: int = 0
    steps: float = 0.0
    seconds: float = 0.0
    measured_seconds: float = 0.0
    """Time of the steps whose data wait was measured."""
    wait_seconds: float = 0.0

    @property
    def wait_share_pct(self) -> float | None:
        """Share of step time spent waiting for data; None: measured for less than half of it."""
        is_known = self.measured_seconds >= self.seconds / 2
        return share_pct(self.wait_seconds, self.measured_seconds) if is_known else None


def step_time(frame: RunFrame) -> StepTime:
    totals = [node.training_totals for node in frame.nodes.values()]
    return StepTime(*(sum(column) for column in zip(*totals, strict=True)))


def loop_span(frame: RunFrame) -> Window | None:
    """From the first training step to the end of the last; None: no training steps."""
    return frame.once(_loop_span)


def _loop_span(frame: RunFrame) -> Window | None:
    steps, chosen = frame.steps, frame.is_train & frame.is_timed
    if not chosen.any():
        return None
    columns = ("start_seconds", "duration_seconds", "count")
    start, end, count = (steps[name].to_numpy(dtype=float)[chosen] for name in columns)
    end *= np.nan_to_num(count, copy=False, nan=1.0)
    end += start
    return Window(float(np.fmin.reduce(start)), float(np.fmax.reduce(end)))


def events_of(node: NodeFrame, kind: str) -> list[tuple[float, dict[str, Any]]]:
    """Time and data of each event of a kind, in order."""
    return node.events_by_kind.get(kind, [])


def training_columns(node: NodeFrame, rank: int | None, *names: str) -> tuple[Floats, ...]:
    """Columns of the rank's training steps, in the order of `NodeFrame.steps`.

    One by one: a table of these steps would be a copy of nearly all that a long run has.
    """
    chosen = node.once(_is_trained_by, rank)
    return tuple(node.step_column(name)[chosen] for name in names)


def _is_trained_by(node: NodeFrame, rank: int | None) -> Flags:
    """For each step, whether it is a training step of the rank."""
    own: Flags = np.asarray(node.step_ranks == rank)
    return node.is_phase("train") & own


def in_order(keys: Floats, *columns: Floats) -> tuple[Floats, ...]:
    """The keys and columns by ascending key; the very arrays if they are so already."""
    if np.all(keys[1:] >= keys[:-1]):
        return keys, *columns
    order = np.argsort(keys, kind="stable")
    return keys[order], *(column[order] for column in columns)


def began_of(node: NodeFrame, kind: str) -> list[tuple[float, dict[str, Any]]]:
    """As `events_of`, at the time when each happened: some are recorded late, and say by how
    much."""
    found = [(at - seconds_of(data.get("ago_seconds")), data) for at, data in events_of(node, kind)]
    return sorted(found, key=lambda event: event[0])


def seconds_of(value: Any) -> float:
    """A duration that an event tells; 0: none, or not a duration."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return max(float(value), 0.0) if is_number and np.isfinite(value) else 0.0


def training_loaders(node: NodeFrame) -> list[dict[str, Any]]:
    """The data loaders that the loop declared, without those for evaluation only."""
    declared = [data for _, data in events_of(node, "loader")]
    return [data for data in declared if data.get("phase", "train") == "train"]


def phase_spans(node: NodeFrame, name: str, end_seconds: float) -> list[Window]:
    """When any rank of the node was in a phase; an open phase lasts to `end_seconds`.

    Without recorded phases: the steps of that phase.
    """
    spans: list[Window] = []
    since: dict[Any, float] = {}
    for at, data, begins in _phase_edges(node, name):
        rank = data.get("rank")
        if begins:
            since.setdefault(rank, at)
        elif rank in since:
            spans.append(Window(since.pop(rank), at))
    spans += [Window(at, max(end_seconds, at)) for at in since.values()]
    return list(merged(spans)) if spans else _step_spans(node, name)


def weighted_median(values: NDArray[Any], weights: NDArray[Any]) -> float:
    """The weighted median."""
    if (weights == weights[0]).all():
        middle = (len(values) + 1) // 2 - 1
        return float(np.partition(values, middle)[middle])
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][int(np.searchsorted(total, total[-1] / 2))])


def _phase_edges(node: NodeFrame, name: str) -> list[tuple[float, dict[str, Any], bool]]:
    begins = [(at, data, True) for at, data in events_of(node, "phase_begin")]
    ends = [(at, data, False) for at, data in events_of(node, "phase_end")]
    edges = [edge for edge in (*begins, *ends) if edge[1].get("phase") == name]
    return sorted(edges, key=lambda edge: (edge[0], edge[2]))


def _step_spans(node: NodeFrame, name: str) -> list[Window]:
    if name not in node.step_phases:
        return []
    steps = node.steps[node.is_phase(name) & node.is_timed]
    ends = steps["start_seconds"] + steps["duration_seconds"] * steps["count"].fillna(1)
    pairs = zip(steps["start_seconds"], ends, strict=True)
    return list(merged([Window(float(a), float(b)) for a, b in pairs], slack_seconds=1.0))

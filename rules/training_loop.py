"""The training loop as recorded: steps, their data waits, phases, loaders, gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rules.frame import Flags, NodeFrame, RunFrame
from rules.grid import Floats
from rules.intervals import merge_windows
from rules.rule import Window


def share_pct(part: float, whole: float) -> float | None:
    """Return the share in percent, rounded so that a sum of a thousand equal shares reaches its
    threshold.
    """
    return round(100 * part / whole, 6) if whole > 0 else None


def loop_span(frame: RunFrame) -> Window | None:
    """Return the time from the first training step to the end of the last; None without training
    steps.
    """
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
    """Return columns of the rank's training steps, in the order of `NodeFrame.steps`.

    They come one by one: a table of these steps would be a copy of nearly all that a long run has.
    """
    chosen = node.once(_is_trained_by, rank)
    return tuple(node.step_column(name)[chosen] for name in names)


def _is_trained_by(node: NodeFrame, rank: int | None) -> Flags:
    """Return for each step whether it is a training step of the rank."""
    own: Flags = np.asarray(node.step_ranks == rank)
    return node.is_phase("train") & own


def in_order(keys: Floats, *columns: Floats) -> tuple[Floats, ...]:
    """Return the keys and columns by ascending key; the very arrays if they are so already."""
    if np.all(keys[1:] >= keys[:-1]):
        return keys, *columns
    order = np.argsort(keys, kind="stable")
    return keys[order], *(column[order] for column in columns)


def began_of(node: NodeFrame, kind: str) -> list[tuple[float, dict[str, Any]]]:
    """Return the events of `events_of`, at the time when each happened: some are recorded late, and
    say by how much.
    """
    found = [(at - seconds_of(data.get("ago_seconds")), data) for at, data in events_of(node, kind)]
    return sorted(found, key=lambda event: event[0])


def seconds_of(value: Any) -> float:
    """Return a duration that an event tells; 0 if it tells none, or not a duration."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return max(float(value), 0.0) if is_number and np.isfinite(value) else 0.0


def training_loaders(node: NodeFrame) -> list[dict[str, Any]]:
    """Return the data loaders that the loop declared, without those for evaluation only."""
    declared = [data for _, data in events_of(node, "loader")]
    return [data for data in declared if data.get("phase", "train") == "train"]


def phase_spans(node: NodeFrame, name: str, end_seconds: float) -> list[Window]:
    """Return when any rank of the node was in a phase. A phase that nobody ended lasts until its
    process was replaced or its session ended, or else to `end_seconds`.

    Without recorded phases, it is the steps of that phase.
    """
    spans: list[Window] = []
    since: dict[Any, float] = {}
    for at, data, begins in _phase_edges(node, name):
        rank = data.get("rank")
        if rank in since and at > (latest := _process_end(node, rank, since[rank])):
            spans.append(Window(since.pop(rank), latest))
        if begins:
            since.setdefault(rank, at)
        elif rank in since:
            spans.append(Window(since.pop(rank), at))
    for rank, at in since.items():
        latest = min(_process_end(node, rank, at), end_seconds)
        spans.append(Window(at, max(latest, at)))
    return list(merge_windows(spans)) if spans else _step_spans(node, name)


def _process_end(node: NodeFrame, rank: Any, since: float) -> float:
    """Return the first end of the rank's process, or of its session, after `since`; infinite if
    none is known."""
    ends = node.once(_process_ends).get(rank, []) + node.once(_session_ends)
    return min((at for at in ends if at > since), default=np.inf)


def _process_ends(node: NodeFrame) -> dict[Any, list[float]]:
    """Return by rank when another process took its place."""
    pids: dict[Any, Any] = {}
    ends: dict[Any, list[float]] = {}
    for at, data in began_of(node, "rank"):
        rank, pid = data.get("rank"), data.get("pid")
        if pids.setdefault(rank, pid) != pid:
            ends.setdefault(rank, []).append(at)
            pids[rank] = pid
    return ends


def _session_ends(node: NodeFrame) -> list[float]:
    told = [at for kind in ("process_exit", "session_end") for at, _ in events_of(node, kind)]
    return [*told, *(end for _, end in node.intervals)]


def weighted_median(values: NDArray[Any], weights: NDArray[Any]) -> float:
    """Return the weighted median."""
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
    return list(merge_windows([Window(float(a), float(b)) for a, b in pairs], slack_seconds=1.0))

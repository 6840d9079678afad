"""The work that a run got done: steps that were done again later aren't part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from advisor.epochs_done import epochs_done
from rules.frame import RunFrame
from rules.global_steps import EVENT_SECONDS
from rules.lost_steps import RunSteps
from rules.rule import Window
from rules.training_loop import events_of

_COLUMNS = ["node", "rank", "samples", "tokens", "count", "start_seconds", "duration_seconds"]
_FLOATS = {"samples": "float64", "tokens": "float64"}
_SLACK_SECONDS = 2e-6
"""Times of steps are rounded to microseconds."""
Lost = Mapping[str, Sequence[Window]]
"""The time in steps that were done again, by node."""


def work_done(frame: RunFrame, training: pd.DataFrame, steps: RunSteps | None) -> dict[str, float]:
    """Return samples and tokens of all ranks, steps of one rank, and epochs with the part of the
    last.

    A first step whose beginning was not recorded has no time, but its samples and tokens count.
    Steps whose number within the training is unknown count as they were made.

    Args:
        steps: the run's numbered steps; None: nothing is known to be lost.
    """
    lost = steps.lost_seconds() if steps else {}
    work: dict[str, float] = {}
    made = made_steps(frame, training)
    if len(made):
        share = _kept_share(made, lost) if any(lost.values()) else 1.0
        for unit in _FLOATS:
            counted = made[unit].to_numpy(dtype=float)
            if not np.isnan(counted).any():
                work[unit] = float((counted * share).sum())
        known = steps.counted if steps else None
        work["steps"] = _most_steps(made, share) if known is None else float(known)
    if epochs := epochs_done(frame, steps):
        work["epochs"] = epochs
    return work


def made_steps(frame: RunFrame, training: pd.DataFrame) -> pd.DataFrame:
    """Return the training steps, and the first ones whose beginning was not recorded."""
    untimed = _untimed(frame)
    if not untimed:
        return training
    others = pd.DataFrame(untimed, columns=_COLUMNS).astype(_FLOATS)
    return pd.concat([training[_COLUMNS], others], ignore_index=True)


def _most_steps(made: pd.DataFrame, share: np.ndarray | float) -> float:
    """Return the most steps that any rank made."""
    counts = (made["count"] * share).groupby([made["node"], made["rank"]]).sum()
    return float(counts.max())


def _untimed(frame: RunFrame) -> list[tuple[Any, ...]]:
    """Return the training steps reported as events, each with its `_COLUMNS`."""
    return [
        (key, data.get("rank"), data.get("samples"), data.get("tokens"), 1, at, 0.0)
        for key, node in frame.nodes.items()
        for at, data in events_of(node, "step_untimed")
        if data.get("phase") == "train"
    ]


def _kept_share(made: pd.DataFrame, lost: Lost) -> np.ndarray:
    """Return the share of each row that counts: a single step counts or doesn't; of the steps of a
    second, those outside lost time do.
    """
    share = np.ones(len(made))
    counts = made["count"].to_numpy(dtype=float)
    starts = made["start_seconds"].to_numpy(dtype=float)
    lengths = made["duration_seconds"].to_numpy(dtype=float) * counts
    for key, windows in lost.items():
        rows = np.flatnonzero((made["node"] == key).to_numpy())
        for window in windows:
            begin, end = starts[rows], starts[rows] + lengths[rows]
            covered = np.minimum(end, window.end_seconds) - np.maximum(begin, window.start_seconds)
            part = covered.clip(0) / np.maximum(end - begin, 1e-9)
            is_inside = _is_inside((begin + end) / 2, window)
            share[rows] -= np.where(counts[rows] > 1, part.clip(0, 1), is_inside)
    return share.clip(0, 1)


def _is_inside(at: np.ndarray, window: Window) -> np.ndarray:
    begins = at >= window.start_seconds - _SLACK_SECONDS
    return begins & (at <= window.end_seconds + _SLACK_SECONDS)


def metric_values(frame: RunFrame, steps: RunSteps | None) -> list[tuple[float, str, float]]:
    """Time, name and value of the run's metrics. What was told after a step that was done again
    is left out: the training came there later."""
    undone = steps.undone(steps_later=1) if steps else {}
    return [
        (float(at), data["name"], data["value"])
        for key, node in frame.nodes.items()
        for at, data in events_of(node, "metric")
        if isinstance(data.get("name"), str)
        and isinstance(data.get("value"), float)
        and not _is_within(at + EVENT_SECONDS, undone.get(key, ()))
    ]


def _is_within(at: float, windows: Sequence[Window]) -> bool:
    return any(each.start_seconds <= at < each.end_seconds for each in windows)

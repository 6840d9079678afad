"""A run's work, split into windows of equal length with percentiles for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.activity import first_step_end_seconds
from rules.evidence import series_after
from rules.frame import NodeFrame, RunFrame
from rules.intervals import merge_windows
from rules.restarts import process_restarts, restore_spans
from rules.rule import Numbers, Values

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
LEAST_SECONDS = 20.0
"""The least evidence for a verdict, however short the run."""


@dataclass(frozen=True)
class Windows:
    """Windows of a series, in order. A table of pandas would cost more than the percentiles.

    Attributes:
        starts, ends: seconds, of the first and the last sample of each.
        percentiles: name -> a value for each window.
    """

    starts: Floats
    ends: Floats
    percentiles: Mapping[str, Floats]

    def __len__(self) -> int:
        return len(self.starts)

    def median(self, name: str) -> float:
        """Return the median of a percentile over the windows; NaN if there are none."""
        values = self.percentiles[name]
        if len(values) > 1:
            return float(np.median(values))
        return float(values[0]) if len(values) else float("nan")


def window_percentiles(
    node: NodeFrame,
    series: pd.Series[float] | None,
    window_seconds: float,
    percents: Mapping[str, float],
) -> Windows:
    """Return the windows of `series_while_working`, with these percentiles of each.

    The last window includes the remainder. Windows with less than half as many samples as the
    fullest one are left out.
    """
    work = series_while_working(node, series)
    if work is None:
        none = np.zeros(0)
        return Windows(none, none, dict.fromkeys(percents, none))
    index, values = work.index.to_numpy(dtype=np.float64), work.to_numpy(dtype=np.float64)
    since = index - index[0]
    last = max(int(since[-1] // window_seconds) - 1, 0)
    if last:
        cells = np.minimum(since // window_seconds, last)
        firsts = np.flatnonzero(np.diff(cells, prepend=-1))
        ordered = np.asarray(values[np.lexsort((values, cells))], dtype=np.float64)
    else:
        firsts, ordered = np.zeros(1, dtype=np.int64), np.sort(values)
    counts = np.diff(firsts, append=len(values))
    known = counts >= 0.5 * counts.max()
    firsts, counts = firsts[known], counts[known]
    columns = {n: _percentile(ordered, firsts, counts, pct) for n, pct in percents.items()}
    return Windows(index[firsts], index[firsts + counts - 1], columns)


def series_while_working(
    node: NodeFrame, series: pd.Series[float] | None
) -> pd.Series[float] | None:
    """Return the series after the first step, or the first use of a GPU, without the time in
    which processes were started again.
    """
    work = series_after(series, first_step_end_seconds(node))
    if work is None:
        return None
    waits, begins = process_restarts(node)
    starts = [*waits, *begins, *restore_spans(node, np.inf)] if waits or begins else []
    edges = [at for w in merge_windows(starts) for at in (w.start_seconds, w.end_seconds)]
    is_starting = np.searchsorted(edges, work.index.to_numpy(dtype=float), side="right") % 2 == 1
    rest = work[~is_starting] if edges else work
    return rest if len(rest) else None


def gpu_windows(node: NodeFrame, number: int, window_seconds: float) -> Windows:
    """Return the windows of a GPU's utilisation, with the percentiles `p95` and `p5`."""
    return node.once(_gpu_windows, number, window_seconds)


def _gpu_windows(node: NodeFrame, number: int, window_seconds: float) -> Windows:
    percents = {"p95": 95.0, "p5": 5.0}
    return window_percentiles(node, node.gpu_busy_pct(number), window_seconds, percents)


def start_up(frame: RunFrame) -> dict[str, float | None]:
    """Return whether a GPU has been in use, and whether the run may still be starting up: it is
    running and has reported no step but first ones.
    """
    nodes = frame.nodes.values()
    return {
        "has_begun": float(frame.final or any(n.first_use_seconds is not None for n in nodes)),
        "may_start_up": float(not frame.final and not any(n.training_ranks for n in nodes)),
    }


def needed_seconds(values: Values, numbers: Numbers) -> float:
    """Return `patience_seconds`, or in a short run `patience_share_pct` of it; never below 20 s.

    A run that may be starting up isn't short: more of it is to come.
    """
    if numbers.get("may_start_up"):
        return max(values["patience_seconds"], LEAST_SECONDS)
    share = values["patience_share_pct"] / 100 * (numbers.get("run_seconds") or 0.0)
    return max(min(values["patience_seconds"], share), LEAST_SECONDS)


def _percentile(ordered: Floats, firsts: Places, counts: Places, percent: float) -> Floats:
    """Return the percentile of each window, whose sorted values start at `firsts`; like
    np.percentile.
    """
    at = (counts - 1) * (percent / 100)
    below = np.floor(at).astype(np.int64)
    low, high = ordered[firsts + below], ordered[firsts + np.minimum(below + 1, counts - 1)]
    part = at - below
    percentiles: Floats = np.where(
        part < 0.5, low + (high - low) * part, high - (high - low) * (1 - part)
    )
    return percentiles

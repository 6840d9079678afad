"""A run's work, split into windows of equal length with percentiles for each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.activity import first_step_end_seconds
from rules.evidence import after
from rules.frame import NodeFrame, RunFrame
from rules.rule import Numbers, Values

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
LEAST_SECONDS = 20.0
"""The least evidence for a verdict, however short the run."""


def window_percentiles(
    node: NodeFrame,
    series: pd.Series[float] | None,
    window_seconds: float,
    percents: Mapping[str, float],
) -> pd.DataFrame:
    """`start`, `end` and one column per percentile, for each window after the first step, or the
    first use of a GPU.

    The last window includes the remainder. Windows with less than half as many samples as the
    fullest one are left out.
    """
    work = after(series, first_step_end_seconds(node))
    if work is None:
        return pd.DataFrame(columns=["start", "end", *percents])
    since = work.index.to_numpy(dtype=float) - float(work.index[0])
    last = max(int(since[-1] // window_seconds) - 1, 0)
    cells = np.minimum(since // window_seconds, last)
    firsts = np.flatnonzero(np.diff(cells, prepend=-1))
    counts = np.diff(firsts, append=len(cells))
    index, values = work.index.to_numpy(dtype=np.float64), work.to_numpy(dtype=np.float64)
    ordered = np.asarray(values[np.lexsort((values, cells))], dtype=np.float64)
    known = counts >= 0.5 * counts.max()
    firsts, counts = firsts[known], counts[known]
    columns = [_percentile(ordered, firsts, counts, percent) for percent in percents.values()]
    table = np.stack([index[firsts], index[firsts + counts - 1], *columns], axis=1)
    return pd.DataFrame(table, columns=["start", "end", *percents], copy=False)


def start_up(frame: RunFrame) -> dict[str, float | None]:
    """Whether a GPU has been in use, and whether the run may still be starting up: it is running
    and has reported no step but first ones."""
    nodes = frame.nodes.values()
    return {
        "has_begun": float(frame.final or any(n.first_use_seconds is not None for n in nodes)),
        "may_start_up": float(not frame.final and not any(n.training_ranks for n in nodes)),
    }


def needed_seconds(values: Values, numbers: Numbers) -> float:
    """`patience_seconds`, or in a short run `patience_share_pct` of it; never below 20 s.

    A run that may be starting up isn't short: more of it is to come.
    """
    if numbers.known("may_start_up"):
        return max(values["patience_seconds"], LEAST_SECONDS)
    share = values["patience_share_pct"] / 100 * (numbers.known("run_seconds") or 0.0)
    return max(min(values["patience_seconds"], share), LEAST_SECONDS)


def _percentile(ordered: Floats, firsts: Places, counts: Places, percent: float) -> Floats:
    """The percentile of each window, whose sorted values start at `firsts`; like np.percentile."""
    at = (counts - 1) * (percent / 100)
    below = np.floor(at).astype(np.int64)
    low, high = ordered[firsts + below], ordered[firsts + np.minimum(below + 1, counts - 1)]
    part = at - below
    percentiles: Floats = np.where(
        part < 0.5, low + (high - low) * part, high - (high - low) * (1 - part)
    )
    return percentiles

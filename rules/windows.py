"""The work of a run cut into windows of equal length, each with its own percentiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from rules.evidence import after
from rules.frame import NodeFrame
from rules.rule import Values

LEAST_SECONDS = 20.0
"""Less than this is never enough to judge, however short the run."""


def window_percentiles(
    node: NodeFrame,
    series: pd.Series[float] | None,
    window_seconds: float,
    percents: Mapping[str, float],
) -> pd.DataFrame:
    """`start`, `end` and a column a percentile of each window after warm-up.

    The last window takes what is left over; one that is less than half as well known as the best
    known one is left out.
    """
    work = after(series, node.warm_up_end_seconds())
    if work is None:
        return pd.DataFrame(columns=["start", "end", *percents])
    since = work.index.to_numpy(dtype=float) - float(work.index[0])
    last = max(int(since[-1] // window_seconds) - 1, 0)
    cells = pd.Series(work.to_numpy(), index=work.index).groupby(
        np.minimum(since // window_seconds, last)
    )
    rows = [
        (float(part.index[0]), float(part.index[-1]), *_percentiles(part, percents), len(part))
        for _, part in cells
    ]
    table = pd.DataFrame(rows, columns=["start", "end", *percents, "known"])
    known: pd.DataFrame = table[table["known"] >= 0.5 * table["known"].max()]
    return known


def needed_seconds(values: Values, run_seconds: float) -> float:
    """`patience_seconds`, in a short run `patience_share_pct` of it, never below 20 s."""
    share = values["patience_share_pct"] / 100 * run_seconds
    return max(min(values["patience_seconds"], share), LEAST_SECONDS)


def _percentiles(part: pd.Series[float], percents: Mapping[str, float]) -> list[float]:
    return [float(value) for value in np.percentile(part, list(percents.values()))]

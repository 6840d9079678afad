"""Percentiles and rates of samples, for all rules. Gaps stay unknown."""

from __future__ import annotations

import numpy as np
import pandas as pd

COUNTER_SUFFIX = "_total"


def is_counter(series: str) -> bool:
    """A counter only grows, until what counts it restarts. Every other series is a gauge."""
    return series.endswith(COUNTER_SUFFIX)


def percentile(series: pd.Series[float] | None, percent: float) -> float | None:
    """The percentile (0..100, linear) of the finite values; None if there are none."""
    if series is None:
        return None
    values = series.to_numpy(dtype=float)
    values = values[np.isfinite(values)]
    return float(np.percentile(values, percent)) if len(values) else None


def after(series: pd.Series[float] | None, seconds: float) -> pd.Series[float] | None:
    """The part of a series from `seconds` on; None if nothing is left."""
    if series is None:
        return None
    rest = series.iloc[int(series.index.searchsorted(seconds)) :]
    return rest if len(rest) else None


def rate(counter: pd.Series[float] | None, resolution_seconds: float) -> pd.Series[float] | None:
    """Increase per second between neighbouring samples of a counter.

    Over a gap or a restart of the counter the rate is unknown and is left out.
    """
    if counter is None:
        return None
    seconds = pd.Series(counter.index.to_numpy(dtype=float), index=counter.index).diff()
    increase = counter.diff()
    good = (seconds <= 1.5 * resolution_seconds) & (increase >= 0)
    rates = (increase / seconds)[good]
    return rates if len(rates) else None


def within(seconds: float, longest_seconds: float) -> float:
    """`seconds` clamped to 0..`longest_seconds`: no rule claims more than was paid for."""
    return min(max(seconds, 0.0), max(longest_seconds, 0.0))

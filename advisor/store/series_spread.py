"""How the values of series are distributed over a time: percentiles, and counts for a histogram."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from advisor.store.histogram import expanded, scale_of
from advisor.store.index import TIERS_SECONDS, to_ms
from advisor.store.reading import Reader
from advisor.store.resolution import FINEST_TICK_SECONDS, MOST_TICKS
from advisor.store.rows import Rows, joined


@dataclass(frozen=True)
class SeriesSpread:
    """The known values of one gauge.

    Attributes:
        values, weights: rising, and how many samples each stands for.
        is_exact: each is a single sample. Else they stand for what tiers have: of series that rules
            judge the distribution, of others the means of their cells.
    """

    values: np.ndarray
    weights: np.ndarray
    is_exact: bool

    def percentiles(self, percents: Collection[float]) -> list[float]:
        """Of single samples NumPy's, between the two nearest ones."""
        if self.is_exact:
            return [float(value) for value in np.percentile(self.values, list(percents))]
        ends = np.cumsum(self.weights)
        places = np.searchsorted(ends, np.array(list(percents)) / 100 * ends[-1] - 1e-9)
        return [float(value) for value in self.values[np.minimum(places, len(ends) - 1)]]

    def counts(self, edges: np.ndarray) -> np.ndarray:
        """Samples by bin; what lies outside counts in the outermost ones."""
        inside = np.clip(self.values, edges[0], edges[-1])
        return np.histogram(inside, edges, weights=self.weights)[0]


def spreads_of_series(
    reader: Reader, names: Collection[str], start: datetime, end: datetime
) -> dict[str, SeriesSpread]:
    """Of each series that has values between two times.

    Single samples are read of some hours, coarser tiers of longer times.
    """
    tier, parts = _tier((end - start).total_seconds()), defaultdict(list)
    for hour in reader.hours(start, end):
        for name, rows in reader.rows(hour, names, tier):
            if len(rows):
                parts[name].append(rows.within(to_ms(start), to_ms(end) + 1))
    spreads = {name: _spread(name, joined(rows)) for name, rows in parts.items()}
    return {name: spread for name, spread in spreads.items() if len(spread.values)}


def _tier(seconds: float) -> int:
    most = MOST_TICKS
    if seconds <= most * FINEST_TICK_SECONDS:
        return 0
    return next((tier for tier in TIERS_SECONDS if seconds / tier <= most), TIERS_SECONDS[-1])


def _spread(name: str, rows: Rows) -> SeriesSpread:
    rows = rows.pick(np.isfinite(rows.mean))
    is_exact = not rows.width_ms.any()
    if not is_exact and (rows.histogram != b"").any():
        rows = expanded(rows, scale_of(name))
    order = np.argsort(rows.mean, kind="stable")
    return SeriesSpread(rows.mean[order], np.maximum(rows.count, 1)[order], is_exact)

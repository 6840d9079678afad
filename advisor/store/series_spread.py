"""The distribution of series' values over a time: percentiles, and counts for a histogram."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from advisor.store.histogram import PARTS, expand_rows, scale_of
from advisor.store.index import TIERS_SECONDS, to_ms
from advisor.store.reading import NodeReader
from advisor.store.resolution import FINEST_TICK_SECONDS, MOST_TICKS
from advisor.store.rows import Rows

MOST_POINTS = 100_000
"""Values of one series that are held: more are put together."""
MERGED_BITS = 11
"""The bits, of the 23 of a float's fraction, that are lost when values are put together: what
remains tells two values apart that differ by a four thousandth."""


@dataclass(frozen=True)
class SeriesSpread:
    """The known values of one gauge, or the rates of one counter.

    Attributes:
        values, weights: rising, and how many samples each stands for.
        least, most: exact, however coarse the values are.
        amount: of a counter, how much was counted while its rate was known.
        is_exact: each value is a single sample. Else they stand for what tiers have: of series that
            rules judge the distribution, of others the means of their cells.
    """

    values: np.ndarray
    weights: np.ndarray
    least: float
    most: float
    amount: float
    is_exact: bool

    def percentiles(self, percents: Collection[float]) -> list[float]:
        """Return the percentiles. Those of single samples are NumPy's, between the two nearest
        ones.
        """
        wanted = np.array(list(percents), dtype=np.float64)
        if self.is_exact:
            return [float(v) for v in np.percentile(self.values.astype(np.float64), wanted)]
        ends = np.cumsum(self.weights, dtype=np.float64)
        places = np.searchsorted(ends, wanted / 100 * ends[-1] * (1 - 1e-9))
        found = self.values[np.minimum(places, len(ends) - 1)].astype(np.float64)
        found = np.where(wanted <= 0, self.least, np.where(wanted >= 100, self.most, found))
        return [float(value) for value in np.clip(found, self.least, self.most)]

    def counts(self, edges: np.ndarray) -> np.ndarray:
        """Return the samples by bin; what lies outside counts in the outermost ones."""
        inside = np.clip(self.values, edges[0], edges[-1])
        return np.histogram(inside, edges, weights=self.weights)[0]

    def scale(self, factor: float) -> SeriesSpread:
        """Return the spread of values that are `factor` times as large, for example percent of a
        size.
        """
        ends = self.least * factor, self.most * factor
        return SeriesSpread(
            self.values * factor, self.weights, *ends, self.amount * factor, self.is_exact
        )


def spreads_of_series(
    reader: NodeReader,
    names: Collection[str],
    start: datetime,
    end: datetime,
    most_cells: int | None = None,
) -> dict[str, SeriesSpread]:
    """Return the spread of each series that has values between two times.

    Single samples are read of some hours, coarser tiers of longer times. What is held grows with
    the number of series and not with the length of the time.

    Args:
        most_cells: of a tier, in all; of more, a coarser one is read if there is one.
    """
    tier = _tier((end - start).total_seconds(), most_cells or MOST_TICKS)
    found: dict[str, _Points] = defaultdict(_Points)
    for hour in reader.hours(start, end):
        for name, rows in reader.rows(hour, names, tier):
            if len(rows):
                found[name].add(name, rows.clip(to_ms(start), to_ms(end) + 1))
    return {name: points.spread() for name, points in found.items() if points}


def _tier(seconds: float, most_cells: int) -> int:
    if seconds <= MOST_TICKS * FINEST_TICK_SECONDS:
        return 0
    fit = (tier for tier in TIERS_SECONDS if seconds / tier <= most_cells)
    return next(fit, TIERS_SECONDS[-1])


class _Points:
    """The values of one series so far; `weights`: empty as long as all are single samples."""

    def __init__(self) -> None:
        self._values: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []
        self._count = 0
        self._least, self._most, self._amount = np.inf, -np.inf, 0.0
        self._is_exact = True

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, name: str, rows: Rows) -> None:
        rows = rows.pick(np.isfinite(rows.mean))
        if not len(rows):
            return
        self._least = min(self._least, float(rows.low.min()))
        self._most = max(self._most, float(rows.high.max()))
        self._amount += float((rows.mean * rows.weight).sum()) / 1000
        self._is_exact &= not rows.width_ms.any()
        values, weights = _weighted(name, rows)
        self._values.append(values.astype(np.float32))
        self._weights.append(weights.astype(np.float32))
        self._count += len(values)
        if self._count > MOST_POINTS:
            self._merge()

    def spread(self) -> SeriesSpread:
        values = np.concatenate(self._values)
        if self._is_exact:
            ones = np.broadcast_to(np.float32(1), len(values))
            ends = self._least, self._most
            return SeriesSpread(np.sort(values), ones, *ends, self._amount, is_exact=True)
        order = np.argsort(values, kind="stable")
        weights = np.concatenate(self._weights)[order]
        return SeriesSpread(
            values[order], weights, self._least, self._most, self._amount, is_exact=False
        )

    def _merge(self) -> None:
        """Merge values that hardly differ."""
        half = 1 << (MERGED_BITS - 1)
        bits = np.concatenate(self._values).view(np.int32)
        rounded = (bits + half) >> MERGED_BITS << MERGED_BITS
        values, places = np.unique(rounded, return_inverse=True)
        weights = np.bincount(places, np.concatenate(self._weights)).astype(np.float32)
        self._values, self._weights = [values.view(np.float32)], [weights]
        self._count, self._is_exact = len(values), False


def _weighted(name: str, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return the values, and how many samples each stands for, also where that is no whole
    number.
    """
    if not (rows.histogram != b"").any():
        return rows.mean, np.maximum(rows.count, 1)
    many = replace(rows, count=np.maximum(rows.count, 1) * PARTS)
    parts = expand_rows(many, scale_of(name))
    return parts.mean, parts.count / PARTS

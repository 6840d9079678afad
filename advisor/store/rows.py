"""One series of one node in time order: single samples or summaries, gauges or rates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cache

import numpy as np

GAP_FACTOR = 2.5
"""A hole longer than this many sampling intervals is a gap, in which nothing is known."""


@dataclass(frozen=True)
class Rows:
    """Columns of equal length.

    Attributes:
        at_ms: int64, Unix milliseconds, rising: the tick, or the middle of a summary.
        width_ms: int64, the time that a row summarises; 0 for a single sample.
        cadence_ms: int64, the time between the samples behind it.
        low, mean, high: float64. A counter's are of its rate per second; NaN: no rate known.
        weight: int64, of `mean` when rows are summarised: samples; for a counter, milliseconds.
        count: int64, the samples (a counter: the known rates) in it.
        last: float64, a counter's last value; NaN for a gauge.
        histogram: bytes of a summary's samples (a counter's: its rates), see `histogram`; empty:
            none, or all in one bin.
    """

    at_ms: np.ndarray
    width_ms: np.ndarray
    cadence_ms: np.ndarray
    low: np.ndarray
    mean: np.ndarray
    high: np.ndarray
    weight: np.ndarray
    count: np.ndarray
    last: np.ndarray
    histogram: np.ndarray

    def __len__(self) -> int:
        return len(self.at_ms)

    def pick(self, chosen: np.ndarray | slice) -> Rows:
        return Rows(*(getattr(self, name)[chosen] for name in FIELDS))

    def drop_unknown(self) -> Rows:
        """Return the rows of which a value is known."""
        known = self.count > 0
        return self if known.all() else self.pick(known)

    def clip(self, start_ms: int, end_ms: int) -> Rows:
        """Return the rows that overlap [start_ms, end_ms], with their middle moved to its edge if
        it is outside.
        """
        if len(self) and self.at_ms[0] >= start_ms and self.at_ms[-1] < end_ms:
            return self
        half_ms = self.width_ms // 2
        inside = (self.at_ms + half_ms >= start_ms) & (self.at_ms - half_ms <= end_ms)
        kept = self.pick(inside)
        return replace(kept, at_ms=np.clip(kept.at_ms, start_ms, max(end_ms - 1, start_ms)))


FIELDS = tuple(field.name for field in fields(Rows))
_FLOATS = ("low", "mean", "high", "last")


@cache
def no_rows() -> Rows:
    """Return no rows, which nobody can change."""
    kinds = {"histogram": "object"} | dict.fromkeys(_FLOATS, "float64")
    return Rows(*(np.zeros(0, dtype=kinds.get(name, "int64")) for name in FIELDS))


def no_histograms(size: int) -> np.ndarray:
    return np.full(size, b"", dtype=object)


def join_rows(parts: Iterable[Rows]) -> Rows:
    """Join many rows in time order."""
    having = [part for part in parts if len(part)]
    if len(having) < 2:
        return having[0] if having else no_rows()
    rows = Rows(*(np.concatenate([getattr(part, name) for part in having]) for name in FIELDS))
    if bool((np.diff(rows.at_ms) >= 0).all()):
        return rows
    return rows.pick(np.argsort(rows.at_ms, kind="stable"))


def bin_rows(rows: Rows, origin_ms: float, width_ms: float) -> tuple[np.ndarray, Rows]:
    """Return the rows summarised by cells of equal width: the cells' numbers and one row for each.

    A row counts in the cell of its `at_ms`. Empty cells don't appear. Histograms are left out.
    """
    cells, first = cells_of(rows, origin_ms, width_ms)
    if not len(first):
        return cells, rows
    weight = cell_weights(rows, first)
    middle = origin_ms + (cells + 0.5) * width_ms
    return cells, Rows(
        at_ms=np.floor(middle).astype("int64"),
        width_ms=np.full(len(first), round(width_ms)),
        cadence_ms=np.maximum.reduceat(rows.cadence_ms, first),
        low=np.fmin.reduceat(rows.low, first),
        mean=cell_means(rows, first, weight),
        high=np.fmax.reduceat(rows.high, first),
        weight=weight,
        count=np.add.reduceat(rows.count, first),
        last=cell_lasts(rows, first),
        histogram=no_histograms(len(first)),
    )


def cells_of(rows: Rows, origin_ms: float, width_ms: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the cells that have rows, and the index of the first row of each."""
    cell = np.floor((rows.at_ms - origin_ms) / width_ms).astype("int64")
    is_first = np.ones(len(cell), dtype=bool)
    np.not_equal(cell[1:], cell[:-1], out=is_first[1:])
    first = is_first.nonzero()[0]
    return cell[first], first


def cell_weights(rows: Rows, first: np.ndarray) -> np.ndarray:
    return np.asarray(np.add.reduceat(rows.weight, first))


def cell_means(rows: Rows, first: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weighted mean of each cell; NaN without weight.

    Args:
        weight: `cell_weights`.
    """
    weighted = np.where(rows.weight > 0, rows.mean, 0.0) * rows.weight
    return np.asarray(np.add.reduceat(weighted, first) / np.where(weight > 0, weight, np.nan))


def cell_lasts(rows: Rows, first: np.ndarray) -> np.ndarray:
    if not len(first):
        return rows.last[:0]
    return np.asarray(rows.last[np.append(first[1:], len(rows)) - 1])


def no_gap(rows: Rows, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return whether there is no gap between row `left` and row `right`, for arrays of indices."""
    distance = rows.at_ms[right] - rows.at_ms[left]
    hole = distance - (rows.width_ms[left] + rows.width_ms[right]) / 2
    cadence = np.maximum(rows.cadence_ms[left], rows.cadence_ms[right])
    return np.asarray(hole <= GAP_FACTOR * cadence)


def nearest(rows: Rows, moments_ms: np.ndarray) -> np.ndarray:
    """Return for each moment the index of the row that covers it; -1 if nothing is known.

    A row covers the time it summarises, half its cadence around that, and up to halfway to its
    neighbour if there is no gap between the two.
    """
    if not len(rows):
        return np.full(len(moments_ms), -1)
    after = np.searchsorted(rows.at_ms, moments_ms, side="right")
    left, right = neighbours(rows, moments_ms)
    half_ms = rows.width_ms / 2
    to_left = np.maximum(moments_ms - rows.at_ms[left] - half_ms[left], 0)
    to_right = np.maximum(rows.at_ms[right] - moments_ms - half_ms[right], 0)
    has_left, has_right = after > 0, after < len(rows)
    inside = has_left & has_right & no_gap(rows, left, right)
    from_left = inside | (has_left & (to_left * 2 < np.maximum(rows.cadence_ms[left], 1)))
    from_right = inside | (has_right & (to_right * 2 < np.maximum(rows.cadence_ms[right], 1)))
    takes_right = from_right & (~from_left | (to_right < to_left))
    return np.where(takes_right, right, np.where(from_left, left, -1))


def neighbours(rows: Rows, moments_ms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each moment the index of the row at or before it, and of the one after;
    clipped.
    """
    after = np.searchsorted(rows.at_ms, moments_ms, side="right")
    return np.maximum(after - 1, 0), np.minimum(after, len(rows) - 1)

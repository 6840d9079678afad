"""The distribution of a series' samples within a summary of them, in a few bytes.

A mean says nothing about thresholds: 50 % may be 50 all the time, or 0 and 100 in turn. So a tier
keeps a small histogram of each cell, on fixed bins, for the series that rules read. The bins are
listed rising if the values mostly rose within the cell, and falling if they fell. So two series of
which one rises as the other falls still do so when they are read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from advisor.store.rows import Rows, bin_rows, join_rows
from rules.ticks import has_ticks

PARTS = 10
"""Values that stand for a summary when it is read again."""
INSIDE = 0.05, 0.95
"""A value in a bin lies off its edges, so that a threshold there stays on its side of it."""
MOST = 255
"""Counts are relative: at most one byte."""


@dataclass(frozen=True)
class Scale:
    """Bins between fixed edges, at most 256. What lies outside counts in the outermost ones."""

    edges: np.ndarray

    def bins(self, values: np.ndarray) -> np.ndarray:
        found = np.searchsorted(self.edges, values, side="right") - 1
        return np.asarray(np.clip(found, 0, len(self.edges) - 2))


PERCENT = Scale(
    np.concatenate([np.arange(0.0, 10.0), np.arange(10.0, 90.0, 2.5), np.arange(90.0, 101.0)])
)
"""Single points at both ends, where thresholds lie, and two and a half between."""
MAGNITUDE = Scale(np.concatenate([[0.0], 2.0 ** np.arange(-10.0, 53.0, 0.25)]))
"""A fifth apart, from a thousandth to the largest whole number of a float."""


def scale_of(series: str) -> Scale:
    return PERCENT if series.endswith("_pct") else MAGNITUDE


def rolled_up(rows: Rows, tier_seconds: int, series: str, with_histograms: bool = True) -> Rows:
    """Return the rows summarised by cells from the Unix epoch, so that hours and parts align."""
    width_ms = tier_seconds * 1000
    cells, sums = bin_rows(rows, 0, width_ms)
    if not (with_histograms and has_ticks(series)):
        return sums
    single = expand_rows(rows, scale_of(series))
    single = single.pick(single.count > 0)
    place = np.searchsorted(cells, single.at_ms // width_ms)
    return replace(sums, histogram=_histograms(single, place, len(cells), scale_of(series)))


def expand_rows(rows: Rows, scale: Scale) -> Rows:
    """Return each summary as `PARTS` values in the order of its histogram.

    Without a histogram its mean stands for it, if its lowest and highest are in the same bin or in
    neighbouring ones. Otherwise nothing is known of its values: it is left out.
    """
    if not rows.width_ms.any():
        return rows
    spread = scale.bins(rows.high) - scale.bins(rows.low)
    has = rows.histogram != b""
    plain = rows.pick(~has & ((rows.width_ms == 0) | ~(spread > 1)))
    return join_rows([plain, _parts(rows.pick(has), scale)]) if has.any() else plain


def _histograms(rows: Rows, place: np.ndarray, size: int, scale: Scale) -> np.ndarray:
    """Return the histogram of each of `size` cells, `(bin, count)` as bytes, from rows in their
    order.

    Args:
        place: the cell of each row, never falling.
    """
    found = scale.bins(rows.mean)
    falls = _falls(found, place, size)
    key = place * 256 + np.where(falls[place], 255 - found, found)
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    counts = np.add.reduceat(rows.count[order], starts) if len(starts) else starts
    cells, bins = key[starts] // 256, key[starts] % 256
    bins = np.where(falls[cells], 255 - bins, bins)
    return _packed(bins, _scaled_down(counts, cells, size), cells, size)


def _falls(values: np.ndarray, place: np.ndarray, cells: int) -> np.ndarray:
    """Return whether the values of each cell fall: the sign of their covariance with time."""
    at = np.arange(len(values), dtype=float)
    count = np.maximum(np.bincount(place, minlength=cells), 1)
    middle = np.bincount(place, at, cells) / count
    return np.asarray(np.bincount(place, (at - middle[place]) * values, cells) < 0)


def _scaled_down(counts: np.ndarray, cells: np.ndarray, size: int) -> np.ndarray:
    most = np.zeros(size, dtype=counts.dtype)
    np.maximum.at(most, cells, counts)
    return np.asarray(np.ceil(counts * np.minimum(MOST / np.maximum(most, 1), 1.0)[cells]))


def _packed(bins: np.ndarray, counts: np.ndarray, cells: np.ndarray, size: int) -> np.ndarray:
    body = np.stack([bins, counts], axis=1).astype(np.uint8).tobytes()
    ends = 2 * np.cumsum(np.bincount(cells, minlength=size))
    packed = np.full(size, b"", dtype=object)
    lengths = np.diff(ends, prepend=0)
    for place in np.flatnonzero(lengths > 2):
        packed[place] = body[ends[place] - lengths[place] : ends[place]]
    return packed


def _parts(rows: Rows, scale: Scale) -> Rows:
    every = np.repeat(np.arange(len(rows)), PARTS)
    nth = np.tile(np.arange(PARTS), len(rows))
    width_ms = rows.width_ms[every] // PARTS
    values = _values(rows, scale).ravel()
    return Rows(
        at_ms=rows.at_ms[every] - rows.width_ms[every] // 2 + width_ms * nth + width_ms // 2,
        width_ms=width_ms,
        cadence_ms=rows.cadence_ms[every],
        low=values,
        mean=values,
        high=values,
        weight=np.maximum(rows.weight[every] // PARTS, 1),
        count=np.maximum(rows.count[every] // PARTS, 1),
        last=rows.last[every],
        histogram=rows.histogram[every],
    )


def _values(rows: Rows, scale: Scale) -> np.ndarray:
    """Return `PARTS` equally likely values of each row, evenly spread within its bins."""
    pairs = np.frombuffer(b"".join(rows.histogram), dtype=np.uint8).reshape(-1, 2)
    bins = np.minimum(pairs[:, 0], len(scale.edges) - 2).astype(np.int64)
    counts = np.maximum(pairs[:, 1], 1).astype(np.int64)
    row = np.repeat(np.arange(len(rows)), [len(each) // 2 for each in rows.histogram])
    total = np.bincount(row, counts, len(rows))
    ends = np.cumsum(counts)
    before = np.concatenate([[0.0], np.cumsum(total)[:-1]])
    wanted = before[:, None] + total[:, None] * (np.arange(PARTS) + 0.5) / PARTS
    chosen = np.searchsorted(ends, wanted.ravel(), side="right").clip(max=len(ends) - 1)
    within = (wanted.ravel() - (ends - counts)[chosen]) / counts[chosen]
    within = within.clip(*INSIDE)
    low = np.maximum(scale.edges[bins[chosen]], rows.low[row[chosen]])
    high = np.minimum(scale.edges[bins[chosen] + 1], rows.high[row[chosen]])
    high = np.maximum(low, high)
    return np.asarray(low + within * (high - low)).reshape(len(rows), PARTS)

"""Samples as taken: the ticks of one session at one cadence, with integers kept as integers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from trimtab.wire.segment import Number


class SessionKey(NamedTuple):
    """One agent process. Sessions sort by their starts."""

    started_us: int
    id: str


class TickColumn(NamedTuple):
    """`values` are int64 or float64. Where `known` is false, the sample is missing."""

    values: np.ndarray
    known: np.ndarray


@dataclass(frozen=True)
class Ticks:
    """Series that were read together.

    Attributes:
        cadence_ms: the intended time between two ticks, or the time that a thinned tick summarises.
        times_ms: int64, Unix milliseconds, rising.
        columns: by series, of the same length. A thinned one has `name:min`, `name:mean`,
            `name:max` and `name:count` instead.
    """

    session: SessionKey
    cadence_ms: int
    times_ms: np.ndarray
    columns: dict[str, TickColumn]

    def pick(self, chosen: np.ndarray) -> Ticks:
        """Return the ticks for which a boolean is true."""
        kept = {n: TickColumn(c.values[chosen], c.known[chosen]) for n, c in self.columns.items()}
        return Ticks(self.session, self.cadence_ms, self.times_ms[chosen], kept)


def column(values: Sequence[Number]) -> TickColumn:
    """Return integers as int64; mixed numbers as float64, exact to 2^53."""
    try:
        array = pa.array(values)
    except pa.ArrowInvalid:
        array = pa.array([None if value is None else float(value) for value in values])
    return from_arrow(array)


def from_arrow(array: pa.Array) -> TickColumn:
    """Return a column of int64, float64, or nothing but nulls."""
    if pa.types.is_null(array.type):
        return TickColumn(np.zeros(len(array), dtype="int64"), np.zeros(len(array), dtype=bool))
    if array.null_count:
        known = array.is_valid().to_numpy(zero_copy_only=False)
        return TickColumn(array.fill_null(0).to_numpy(zero_copy_only=False), known)
    return TickColumn(array.to_numpy(zero_copy_only=False), np.ones(len(array), dtype=bool))


def sort_ticks(
    session: SessionKey, cadence_ms: int, times: np.ndarray, columns: dict[str, TickColumn]
) -> Ticks:
    """Sort ticks. Of two in the same millisecond the first is kept."""
    if len(times) < 2 or bool((np.diff(times) > 0).all()):
        return Ticks(session, cadence_ms, times, columns)
    rising, chosen = np.unique(times, return_index=True)
    kept = {name: TickColumn(c.values[chosen], c.known[chosen]) for name, c in columns.items()}
    return Ticks(session, cadence_ms, rising, kept)


def merge_ticks(parts: Iterable[Ticks]) -> list[Ticks]:
    """Merge the parts to one `Ticks` per session and cadence. A series sampled twice at one time
    counts once.
    """
    groups: dict[tuple[SessionKey, int], list[Ticks]] = defaultdict(list)
    for part in parts:
        groups[part.session, part.cadence_ms].append(part)
    return [group[0] if len(group) == 1 else _union(group) for _, group in sorted(groups.items())]


def _union(parts: list[Ticks]) -> Ticks:
    times = np.unique(np.concatenate([part.times_ms for part in parts]))
    places = [np.searchsorted(times, part.times_ms) for part in parts]
    columns = {}
    for name in sorted({name for part in parts for name in part.columns}):
        having = [
            (p.columns[name], at) for p, at in zip(parts, places, strict=True) if name in p.columns
        ]
        columns[name] = _spread(having, len(times))
    return Ticks(parts[0].session, parts[0].cadence_ms, times, columns)


def _spread(having: list[tuple[TickColumn, np.ndarray]], length: int) -> TickColumn:
    is_float = any(part.values.dtype.kind == "f" and part.known.any() for part, _ in having)
    values = np.zeros(length, dtype="float64" if is_float else "int64")
    known = np.zeros(length, dtype=bool)
    for part, places in reversed(having):
        values[places[part.known]] = part.values[part.known]
        known[places[part.known]] = True
    return TickColumn(values, known)

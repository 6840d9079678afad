"""The choice of the series of a node that are read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet

Wanted = Collection[str] | Callable[[AbstractSet[str]], AbstractSet[str]] | None
"""The names of series; a function that chooses among an object's series; or None for all."""


def columns_among(columns: Iterable[str], wanted: Wanted) -> set[str]:
    """Return the columns that the ticks of the wanted series need: a thinned one has several."""
    names = set(columns)
    series = select_wanted({_series_of(name) for name in names}, wanted)
    return {name for name in names if _series_of(name) in series}


def _series_of(column: str) -> str:
    return column.split(":")[0]


def select_wanted(series: AbstractSet[str], wanted: Wanted) -> AbstractSet[str]:
    """Return the wanted ones."""
    if wanted is None:
        return series
    return wanted(series) if callable(wanted) else series & set(wanted)

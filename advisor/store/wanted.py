"""Which series of a node are read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet

Wanted = Collection[str] | Callable[[AbstractSet[str]], AbstractSet[str]] | None
"""These; those that a function chooses among an object's; or (None) all."""


def columns_among(columns: Iterable[str], wanted: Wanted) -> set[str]:
    """The columns that the ticks of the wanted series need: a thinned one has several."""
    names = set(columns)
    series = among({_series_of(name) for name in names}, wanted)
    return {name for name in names if _series_of(name) in series}


def _series_of(column: str) -> str:
    return column.split(":")[0]


def among(series: AbstractSet[str], wanted: Wanted) -> AbstractSet[str]:
    """The wanted ones."""
    if wanted is None:
        return series
    return wanted(series) if callable(wanted) else series & set(wanted)

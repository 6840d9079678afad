"""Which series of a node are read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet

Wanted = Collection[str] | Callable[[AbstractSet[str]], AbstractSet[str]] | None
"""These; those that a function chooses among an object's; or (None) all."""


def among(series: AbstractSet[str], wanted: Wanted) -> AbstractSet[str]:
    """The wanted ones."""
    if wanted is None:
        return series
    return wanted(series) if callable(wanted) else series & set(wanted)

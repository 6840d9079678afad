"""The runs of one workload, cut wherever a recommendation came into effect or out of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import groupby

from advisor.proof.claims import Claim

Key = Hashable


class Stretches:
    """Between two cuts the same recommendations are in effect, so that every change has runs
    before it and after it that differ by it alone, or by those that came at the same time."""

    def __init__(self, count: int, claims: Mapping[Key, Claim]) -> None:
        self._claims = claims
        effects = [self._in_effect(place) for place in range(count)]
        self._stretches = [
            [place for place, _ in group]
            for _, group in groupby(enumerate(effects), key=lambda pair: pair[1])
        ]

    def _in_effect(self, place: int) -> frozenset[Key]:
        return frozenset(key for key, claim in self._claims.items() if place in claim.places)

    def before(self, claim: Claim) -> Sequence[int]:
        """The places of the runs up to the claim; empty: it is the first."""
        own = self._number(claim.at)
        return self._stretches[own - 1] if own else ()

    def first(self, claim: Claim) -> Sequence[int]:
        """The places of the runs from the claim to the next cut."""
        return self._stretches[self._number(claim.at)]

    def together(self, claim: Claim) -> list[Key]:
        """The recommendations that came into effect with the claim, itself among them."""
        return [key for key, other in self._claims.items() if other.at == claim.at]

    def _number(self, place: int) -> int:
        return next(at for at, stretch in enumerate(self._stretches) if place in stretch)

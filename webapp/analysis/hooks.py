"""What packages above the analysis make of it: they register here when the service starts."""

from __future__ import annotations

from collections.abc import Callable

from webapp.analysis.outcome import FollowUp, Outcome

Preparation = Callable[[Outcome], FollowUp]
"""Works out what follows from a measured run. It may read rows and writes none: what it answers
does."""

_preparations: list[Preparation] = []


def follow_analyses(prepare: Preparation) -> None:
    """Call `prepare` with each outcome from now on; once, however often it is registered."""
    if prepare not in _preparations:
        _preparations.append(prepare)


def follow_ups(outcome: Outcome) -> tuple[FollowUp, ...]:
    """Of all who registered, in that order. Call before the transaction that saves the outcome."""
    return tuple(prepare(outcome) for prepare in _preparations)

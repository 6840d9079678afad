"""Registers what other packages derive from an analysis, when the service starts."""

from __future__ import annotations

from collections.abc import Callable

from webapp.analysis.outcome import FollowUp, Outcome

Preparation = Callable[[Outcome], FollowUp]
"""Computes what follows from a measured run. It may read rows but not write them; the follow-up
that it returns writes."""

_preparations: list[Preparation] = []


def follow_analyses(prepare: Preparation) -> None:
    """Call `prepare` with each outcome from now on. Registering it again has no effect."""
    if prepare not in _preparations:
        _preparations.append(prepare)


def follow_ups(outcome: Outcome) -> tuple[FollowUp, ...]:
    """Return the follow-ups of all that registered, in order. Call before the transaction that
    saves the outcome.
    """
    return tuple(prepare(outcome) for prepare in _preparations)

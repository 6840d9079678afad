"""Whether a later run follows a recommendation.

It does if its machines equal any row of the candidate table, or if it has the recommended setting,
or if the rules passed whose findings the recommendation answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from advisor.proof.runs import MACHINE, CompleteRun, Promise

PASSED, FIRED = "passed", "fired"


@dataclass(frozen=True)
class Claim:
    """`at`: place of the first run that followed, among the runs of its workload. `candidate`: the
    row that it equals. `places`: of all runs that follow."""

    at: int
    candidate: Mapping[str, Any] | None
    places: frozenset[int]


def claim_of(promise: Promise, runs: Sequence[CompleteRun]) -> Claim | None:
    """Among the ordered runs of the promise's workload; None: no run has followed it."""
    following = [place for place, run in enumerate(runs) if _may_claim(promise, run, runs, place)]
    if not following:
        return None
    first = following[0]
    later = range(first + 1, len(runs))
    kept = [place for place in later if _still_follows(promise, runs[place])]
    return Claim(first, candidate_of(promise, runs[first].configuration), frozenset([first, *kept]))


def follows(promise: Promise, run: CompleteRun) -> bool | None:
    """None: this run doesn't tell."""
    if promise.bought:
        return _has_settings(promise, promise.bought, run.configuration)
    if promise.is_about_machine:
        return _machine(run.configuration) != _machine(promise.configuration) and (
            candidate_of(promise, run.configuration) is not None
        )
    if _has_settings(promise, promise.change, run.configuration):
        return True
    states = [run.rules.get(rule) for rule in promise.rules]
    if FIRED in states:
        return False
    return True if states and all(state == PASSED for state in states) else None


def candidate_of(promise: Promise, configuration: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The row of the table that equals the run's machines."""
    own = _machine(configuration)
    for row in promise.candidates:
        if all(row.get(name) == value for name, value in own.items() if name in row):
            return row
    return None


def _may_claim(promise: Promise, run: CompleteRun, runs: Sequence[CompleteRun], place: int) -> bool:
    if run.order <= promise.order or (promise.until is not None and run.order > promise.until):
        return False
    if promise.followed_since is not None:
        return run.at >= promise.followed_since
    return follows(promise, run) is True


def _still_follows(promise: Promise, run: CompleteRun) -> bool:
    """What a run doesn't tell stays as it was."""
    return promise.followed_since is not None or follows(promise, run) is not False


def _machine(configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {name: configuration.get(name) for name in MACHINE}


def _has_settings(
    promise: Promise, wanted: Mapping[str, Any], configuration: Mapping[str, Any]
) -> bool:
    known = bool(wanted) and all(name in configuration for name in wanted)
    return (
        known
        and all(str(configuration[name]) == str(value) for name, value in wanted.items())
        and any(
            str(promise.configuration.get(name)) != str(value) for name, value in wanted.items()
        )
    )

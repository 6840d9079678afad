"""One cause is told once: which findings another one explains, and what waste counts.

The wait for data leaves the GPU idle, so that `input_bound` and `low_gpu_utilization` both fire and
both estimate the same time. A rule names the rules whose findings explain its own, in
`explained_by`. Such a finding is shown under the one that explains it, and its waste isn't added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rules.registry import all_rules

EXPLAINED_SHARE = 0.5
"""A finding is explained by another with at least this share of its waste (ours). If it is less, it
stays a cause of its own, and only what is left of its waste counts."""


@dataclass(frozen=True)
class Place:
    """Where a finding of a run is shown."""

    explained_by: str
    """The rule whose finding explains this one; empty: it is a cause of its own."""
    counted_share: float
    """Of its waste, 0 to 1."""


def places(waste_seconds: Mapping[str, float], run_seconds: float) -> dict[str, Place]:
    """The place of each finding of one run.

    Together they count at most the run's time: if causes overlap so much that their waste adds up
    to more, each counts in proportion.

    Args:
        waste_seconds: rule id -> upper end of the waste, of every rule that fired.
    """
    parents = {rule: _parent(rule, waste_seconds) for rule in waste_seconds}
    own = {
        rule: waste_seconds[rule] - _explained(rule, waste_seconds)
        for rule, parent in parents.items()
        if not parent
    }
    whole = sum(own.values())
    fits = min(run_seconds / whole, 1.0) if whole > 0 else 1.0
    placed = {rule: Place(_root(rule, parents), 0.0) for rule, parent in parents.items() if parent}
    for rule, seconds in own.items():
        share = seconds / waste_seconds[rule] if waste_seconds[rule] > 0 else 1.0
        placed[rule] = Place("", share * fits)
    return placed


def _explaining(rule: str, waste_seconds: Mapping[str, float]) -> list[str]:
    """The findings of the run that may explain this one."""
    known = all_rules().get(rule)
    return [other for other in known.explained_by if other in waste_seconds] if known else []


def _parent(rule: str, waste_seconds: Mapping[str, float]) -> str:
    enough = EXPLAINED_SHARE * waste_seconds[rule]
    others = _explaining(rule, waste_seconds)
    return next((other for other in others if waste_seconds[other] >= enough), "")


def _root(rule: str, parents: Mapping[str, str]) -> str:
    return _root(parents[rule], parents) if parents[rule] else rule


def _explained(rule: str, waste_seconds: Mapping[str, float]) -> float:
    """The seconds of its waste that another finding already counts."""
    others = (waste_seconds[other] for other in _explaining(rule, waste_seconds))
    return min(max(others, default=0.0), waste_seconds[rule])

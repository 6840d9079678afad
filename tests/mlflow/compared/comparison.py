"""Compares what each call gave at MLflow's own server and at ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.mlflow.compared.calls_of import read_areas
from tests.mlflow.compared.differences import DIFFERENCES, Difference

Outcome = Mapping[str, Any]


@dataclass
class Comparison:
    """The comparison of one client's calls.

    Attributes:
        documented: the calls that give something else here, as a `Difference` says.
        undocumented: the other calls that do, with what they gave.
        raising: the calls that raise here alone, although no `Difference` says so.
        used: the patterns of differences that a call needed.
    """

    calls: int = 0
    equal: int = 0
    documented: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    undocumented: list[str] = field(default_factory=list)
    raising: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def line(self) -> str:
        return (
            f"{self.calls} calls, {self.equal} equal, {len(self.documented)} documented "
            f"({len(self.refused)} of them refused), {len(self.raising)} raising"
        )


def compare(theirs: Mapping[str, Outcome], ours: Mapping[str, Outcome]) -> Comparison:
    """Return the comparison of the calls that this client knows."""
    found = Comparison()
    for call in _asking(theirs):
        if "absent" in theirs[call]:
            continue
        found.calls += 1
        if _given(theirs[call]) == _given(ours[call]):
            found.equal += 1
        else:
            _sort_in(found, call, theirs[call], ours[call])
    return found


def _asking(given: Mapping[str, Outcome]) -> Iterator[str]:
    """Yield the calls that ask a server; a repeated one has a number at its end."""
    known = {f"{area.name}: {call}" for area in read_areas() for call in area.calls}
    yield from (call for call in given if call.partition(" #")[0] in known or call in known)


def _given(outcome: Outcome) -> Any:
    """Return the value, or the kind of the error: its words differ."""
    return {"value": outcome["value"]} if "value" in outcome else outcome.get("error", "absent")


def _sort_in(found: Comparison, call: str, theirs: Outcome, ours: Outcome) -> None:
    told = f"{call}\n    MLflow: {str(theirs)[:600]}\n    here:   {str(ours)[:600]}"
    difference, pattern = _difference_of(call)
    is_refused = "value" in theirs and "value" not in ours
    if difference is None:
        (found.raising if is_refused else found.undocumented).append(told)
        return
    if is_refused and not difference.is_refused:
        found.raising.append(told)
        return
    found.used.add(pattern)
    found.documented.append(call)
    if is_refused:
        found.refused.append(call)


def _difference_of(call: str) -> tuple[Difference | None, str]:
    for difference in DIFFERENCES:
        for pattern in difference.calls:
            if pattern in call:
                return difference, pattern
    return None, ""


def unused_patterns(comparisons: Sequence[Comparison]) -> list[str]:
    """Return the patterns that no call of any client needed: these calls are equal now."""
    used = set().union(*(each.used for each in comparisons))
    return [
        pattern for difference in DIFFERENCES for pattern in difference.calls if pattern not in used
    ]

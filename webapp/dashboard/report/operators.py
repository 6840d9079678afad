"""The operators that took the time, of all traces of a run together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from webapp.dashboard.report.figures import BarPart, parts
from webapp.imports.selectors import ImportLine, cost_us

LEAST_SHARE = 0.02
"""The least share of its category's time with which an operator is listed."""
PASSES = ("forward pass", "backward pass")
DEVICES = ("CPU operators", "GPU operators", "GPU kernels")
"""Categories, as importers name them."""
TITLES = {"other": "General framework operations"}
MUCH = 0.7
"""The share of the passes above which one of them is remarked upon."""


@dataclass(frozen=True)
class OperatorRow:
    """Operator; `share` is that of its category's time."""

    name: str
    count: int
    seconds: float
    share: float


@dataclass(frozen=True)
class OperatorCategory:
    """Operators of one category, the longest first. `dropped` counts those that have less than
    `LEAST_SHARE` each.
    """

    name: str
    seconds: float
    operators: list[OperatorRow]
    dropped: int

    @property
    def title(self) -> str:
        return TITLES.get(self.name, self.name)

    @property
    def dropped_share(self) -> float:
        """Return the share of all operators that aren't listed."""
        return max(1 - sum(each.share for each in self.operators), 0.0)


@dataclass(frozen=True)
class OperatorTable:
    """Operators by category; empty without a trace."""

    categories: list[OperatorCategory]

    @property
    def devices(self) -> list[BarPart]:
        """CPU against GPU operators; empty unless there is one of them."""
        return self._parts(DEVICES)

    @property
    def device_words(self) -> str:
        """Return, in words, what took the most of that time."""
        most = max(self.devices, key=lambda part: part.share, default=None)
        return f"{100 * most.share:.0f} % was spent in {most.name}." if most else ""

    @property
    def passes(self) -> list[BarPart]:
        """The ratio of forward to backward passes; empty unless both are known."""
        found = self._parts(PASSES)
        return found if len(found) == len(PASSES) else []

    @property
    def pass_words(self) -> str:
        """A remark if one of the passes takes most of the time."""
        most = max(self.passes, key=lambda part: part.share, default=None)
        if most is None or most.share <= MUCH:
            return ""
        return f"The {most.name} takes more than {100 * MUCH:.0f} % of the two."

    def _parts(self, names: Iterable[str]) -> list[BarPart]:
        seconds = {each.name: each.seconds for each in self.categories}
        known = {name: seconds[name] for name in names if name in seconds}
        return parts(known, {name: name for name in known})


def operators_of(traced: Iterable[ImportLine]) -> OperatorTable:
    """Return the operators of all traces; one that several traces have is added up."""
    found: dict[str, dict[str, list[int]]] = {}
    for line in traced:
        for row in line.row.result.get("operators", ()):
            _add(found.setdefault(row["category"], {}), row)
    return OperatorTable([_category(name, rows) for name, rows in found.items()])


def _add(to: dict[str, list[int]], row: dict[str, Any]) -> None:
    sums = to.setdefault(row["name"], [0, 0])
    sums[0] += int(row["count"])
    sums[1] += cost_us(row)


def _category(name: str, rows: dict[str, list[int]]) -> OperatorCategory:
    total_us = sum(us for _, us in rows.values()) or 1
    ordered = sorted(rows.items(), key=lambda item: -item[1][1])
    listed = [
        OperatorRow(operator, count, us / 1e6, us / total_us)
        for operator, (count, us) in ordered
        if us / total_us >= LEAST_SHARE
    ]
    return OperatorCategory(name, total_us / 1e6, listed, len(ordered) - len(listed))

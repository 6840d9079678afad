"""The settings that differ between two runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from advisor.comparison.run_facts import RunFacts


@dataclass(frozen=True)
class Change:
    """A setting that differs; None: this run doesn't have it."""

    name: str
    a: Any
    b: Any


def changes_of(a: RunFacts, b: RunFacts) -> tuple[Change, ...]:
    before, after = a.settings, b.settings
    names = dict.fromkeys([*before, *after])
    pairs = ((name, before.get(name), after.get(name)) for name in names)
    return tuple(Change(name, x, y) for name, x, y in pairs if x != y)

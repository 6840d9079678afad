"""The result of one check."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class State(enum.Enum):
    FINE = "fine"
    PARTLY = "partly"
    MISSING = "missing"
    WRONG = "wrong"
    """It was set up, and doesn't work."""


@dataclass(frozen=True)
class Check:
    """`lost`: the insight that goes missing; `fix`: what a person can do; empty if all is well."""

    name: str
    state: State
    seen: str
    lost: str = ""
    fix: str = ""

"""The result of one check."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class CheckState(enum.Enum):
    FINE = "fine"
    PARTLY = "partly"
    MISSING = "missing"
    WRONG = "wrong"
    """The state of a part that is set up but doesn't work."""


@dataclass(frozen=True)
class Check:
    """Result of one check. `lost` is what can't be measured or judged, and `fix` what to do. Both
    are empty if all works.
    """

    name: str
    state: CheckState
    seen: str
    lost: str = ""
    fix: str = ""

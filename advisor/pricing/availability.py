"""Decides whether a machine can still be started: what lists, prices, runs and its provider say, by
day.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from advisor.pricing.machine import InstanceType


@dataclass(frozen=True)
class Availability:
    """The facts that are known of a machine on a day.

    Attributes:
        evidence: why it isn't offered; or what speaks for it beside a list that lacks it. Empty: it
            is listed.
    """

    is_offered: bool
    evidence: str = ""

    @property
    def to_check(self) -> str:
        """Return what a person has to check before relying on it, in words; empty if nothing."""
        if not self.is_offered or not self.evidence:
            return ""
        return f"{self.evidence}: check that your region still offers it"

    @property
    def why_not(self) -> str:
        """Return why the machine isn't offered; empty if it is."""
        return "" if self.is_offered else self.evidence


def availability(
    machine: InstanceType, on: date, priced_on: date | None = None, ran_on: date | None = None
) -> Availability:
    """Judge the evidence of `on`.

    Only an end that the provider announced retires a machine. A list that lacks it says little: a
    later price or run outweighs that.

    Args:
        priced_on: when its price was last confirmed.
        ran_on: when the judged run used its family; other runs are known to the machine.
    """
    if machine.ended is not None and on >= machine.ended:
        ended = f"no longer offered: its provider ended it on {machine.ended}"
        return Availability(False, f"{ended} ({machine.end_source})")
    if on < machine.first_seen:
        return Availability(False, f"not offered yet: first listed on {machine.first_seen}")
    if not machine.is_unlisted or on <= machine.last_seen:
        return Availability(True)
    ran_on = max(filter(None, (ran_on, machine.ran_on)), default=None)
    found = {"a run used its family": ran_on, "its price was confirmed": priced_on}
    later = [f"{what} on {day}" for what, day in found.items() if day and day > machine.last_seen]
    if not later:
        unlisted = f"not in its provider's list since {machine.last_seen}"
        return Availability(False, f"{unlisted}, and no later price or run is known")
    return Availability(True, f"last listed on {machine.last_seen}, but {' and '.join(later)}")

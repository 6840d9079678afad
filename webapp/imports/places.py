"""The place of each waiting import in the line, in the order in which workers begin."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from django.contrib.humanize.templatetags.humanize import ordinal

from webapp.background import conditions, fairness
from webapp.imports.queue import KIND

MOST_PLACES = 100
"""The most places that are counted; pages tell those behind them that there are more."""


@dataclass(frozen=True)
class QueuePlaces:
    """The line at one moment. Of other workspaces it tells numbers only.

    Attributes:
        by_artefact: key of an artefact -> place, from 1; only the first `MOST_PLACES`.
        under_way: how many imports workers hold.
    """

    by_artefact: dict[int, int] = field(default_factory=dict)
    under_way: int = 0

    def words(self, place: int | None) -> str:
        """Return a place as pages say it; None for one behind those that are counted."""
        if place is None:
            return f"more than {MOST_PLACES} imports come first"
        if not self.under_way:
            return f"{ordinal(place)} in line"
        others = "1 import is" if self.under_way == 1 else f"{self.under_way} imports are"
        return f"{ordinal(place)} in line; {others} under way"


def places_now(now: datetime) -> QueuePlaces:
    """Return the line of all workspaces' due imports."""
    keys = fairness.in_turn(KIND, MOST_PLACES, now)
    held = KIND.rows.filter(conditions.is_open(), conditions.is_held(now))
    return QueuePlaces({key: place for place, key in enumerate(keys, start=1)}, held.count())

"""Measures how long what was uploaded waits until it is judged, read from the service's rows."""

from __future__ import annotations

import bisect
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg

_JUDGED = "SELECT run_id, began_at, finished_at, due_at FROM analysis_analysis WHERE {}"
_AT_REST = "lease IS NULL AND attempts = 0 AND began_at IS NOT NULL"


@dataclass
class Lag:
    """The time from the answer to an upload to the end of the first look or analysis begun after
    it.

    While the one before has shown that no rule can find anything before a certain time, an upload
    waits from that time on.
    """

    database: str
    """The path of an SQLite file, or the URL of a PostgreSQL database."""
    seconds: list[float] = field(default_factory=list)
    """The lag of each judged upload; at most the time between two readings too long."""
    _judged: dict[UUID, int] = field(default_factory=dict)
    """The number of judged uploads of each run."""
    first_analyses: dict[UUID, float] = field(default_factory=dict)
    """The seconds from each run's first upload to the end of its first analysis."""
    _due_at: dict[UUID, float] = field(default_factory=dict)
    """The time, by run, when its next look or analysis was due at the last reading."""

    def read(self, answered_at: Mapping[UUID, list[float]], now: float) -> None:
        """Count what a look or analysis that is over saw, as far as it wasn't known.

        Args:
            answered_at: by run, the times of its uploads in order, Unix seconds.
        """
        for run, began_at, finished_at, due_at in self._rows():
            times, known = answered_at.get(run, []), self._judged.get(run, 0)
            if finished_at is not None and times:
                self.first_analyses.setdefault(run, now - times[0])
            seen = bisect.bisect_left(times, began_at)
            if seen > known:
                due = self._due_at.get(run, 0.0)
                self.seconds += [max(now - max(at, due), 0.0) for at in times[known:seen]]
                self._judged[run] = seen
            self._due_at[run] = due_at

    def waiting_seconds(self, answered_at: Mapping[UUID, list[float]], now: float) -> float:
        """Return how long the upload that has waited longest has waited so far."""
        firsts = (
            max(times[self._judged.get(run, 0)], self._due_at.get(run, 0.0))
            for run, times in answered_at.items()
            if len(times) > self._judged.get(run, 0)
        )
        return max((now - first for first in firsts), default=0.0)

    def analysed_late(
        self, answered_at: Mapping[UUID, list[float]], now: float, within: float
    ) -> int:
        """Runs that had no analysis `within` so many seconds of their first upload."""
        late = (run for run, times in answered_at.items() if times and now - times[0] > within)
        slow = sum(seconds > within for seconds in self.first_analyses.values())
        return slow + sum(run not in self.first_analyses for run in late)

    def _rows(self) -> list[tuple[UUID, float, Any, float]]:
        query = _JUDGED.format(_AT_REST)
        if self.database.startswith("postgresql://"):
            with psycopg.connect(self.database) as connection:
                rows = connection.execute(query).fetchall()
        else:
            with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as lite:
                rows = lite.execute(query).fetchall()
        return [
            (UUID(str(run)), _unix(began), finished, _unix(due))
            for run, began, finished, due in rows
        ]


def _unix(moment: datetime | str) -> float:
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    return moment.timestamp()

"""How much CPU time searches may take: of one, and of a workspace's in a minute.

A filter is applied to each run, and what a run holds is up to the client: neither the rows nor the
length of the filter say what a search costs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from webapp.http.problems import Problem
from webapp.mlflow_api.errors import MlflowError

SEARCH_SECONDS, MINUTE_SECONDS = 5.0, 20.0
"""CPU seconds of this process. 20,000 runs with a hundred short values each take about two."""
_MOST_REMEMBERED = 10_000

Row = TypeVar("Row")
owed: dict[int, tuple[float, float]] = {}
"""Workspace -> CPU seconds that it has taken and not yet waited for, at a time (monotonic)."""


def bounded(workspace_id: int, rows: Iterable[Row]) -> Iterator[Row]:
    """The rows, until reading them and what is done with them takes too long.

    Raises:
        MlflowError: 413 if this search does.
        Problem: 429 if the workspace's earlier ones did.
    """
    _refuse_if_owing(workspace_id)
    begun = time.thread_time()
    try:
        for row in rows:
            if time.thread_time() - begun > SEARCH_SECONDS:
                raise MlflowError(
                    "RESOURCE_LIMIT_EXCEEDED",
                    f"The search takes more than {SEARCH_SECONDS:g} s of CPU time. Search fewer "
                    "experiments at a time, or use fewer conditions.",
                )
            yield row
    finally:
        if len(owed) >= _MOST_REMEMBERED:
            owed.clear()
        taken = time.thread_time() - begun
        owed[workspace_id] = _owed_by(workspace_id) + taken, time.monotonic()


def _refuse_if_owing(workspace_id: int) -> None:
    excess = _owed_by(workspace_id) - MINUTE_SECONDS
    if excess >= 0:
        wait = math.ceil(excess * 60 / MINUTE_SECONDS) + 1
        raise Problem(
            429,
            f"Searches of the workspace took more than {MINUTE_SECONDS:g} s of CPU time a minute.",
            fix=f"Try again in {wait} s.",
            headers={"Retry-After": str(wait)},
        )


def _owed_by(workspace_id: int) -> float:
    seconds, at = owed.get(workspace_id, (0.0, 0.0))
    return max(0.0, seconds - (time.monotonic() - at) * MINUTE_SECONDS / 60)

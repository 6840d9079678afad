"""Limits the CPU time of searches: of one, of several at once, and of those of a workspace in a
minute.

A filter is applied to each run, and what a run holds is up to the client: neither the rows nor the
length of the filter say what a search costs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import NoReturn, TypeVar

from webapp.http.problems import Problem
from webapp.mlflow_api.errors import MlflowError

SHORT_SECONDS, SEARCH_SECONDS, MINUTE_SECONDS = 0.5, 10.0, 20.0
"""CPU seconds in this process: of a search that others of the workspace may run beside, of any
search, and of all in a minute. 20,000 runs of a hundred short values each take 3.4 (measured)."""
_MOST_REMEMBERED = 10_000

Row = TypeVar("Row")
owed: dict[int, tuple[float, float]] = {}
"""Workspace -> CPU seconds that it has taken and not yet waited for, at a time (monotonic)."""
long_ones: set[int] = set()
"""Workspaces with a search that is no longer short: one at a time."""


def bound_effort(workspace_id: int, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows, until reading them and what is done with them takes too long.

    Raises:
        MlflowError: 413 if this search does.
        Problem: 429 if the workspace's earlier ones did, or another one still does.
    """
    _refuse_if_owing(workspace_id)
    begun, is_long = time.thread_time(), False
    try:
        for row in rows:
            taken = time.thread_time() - begun
            if taken > SHORT_SECONDS and not is_long:
                _refuse_second(workspace_id)
                long_ones.add(workspace_id)
                is_long = True
            if taken > SEARCH_SECONDS:
                _give_up()
            yield row
    finally:
        if is_long:
            long_ones.discard(workspace_id)
        _owe(workspace_id, time.thread_time() - begun)


def _refuse_if_owing(workspace_id: int) -> None:
    excess = _owed_by(workspace_id) - MINUTE_SECONDS
    if excess >= 0:
        most = f"{MINUTE_SECONDS:g} s of CPU time a minute"
        wait = math.ceil(excess * 60 / MINUTE_SECONDS) + 1
        _refuse(f"Searches of the workspace took more than {most}.", wait)


def _refuse_second(workspace_id: int) -> None:
    if workspace_id in long_ones:
        _refuse("Another long search of the workspace is running.", math.ceil(SEARCH_SECONDS))


def _refuse(why: str, wait_seconds: int) -> NoReturn:
    headers = {"Retry-After": str(wait_seconds)}
    raise Problem(429, why, fix=f"Try again in {wait_seconds} s.", headers=headers)


def _give_up() -> NoReturn:
    raise MlflowError(
        "RESOURCE_LIMIT_EXCEEDED",
        f"The search takes more than {SEARCH_SECONDS:g} s of CPU time. Search fewer experiments at "
        "a time, or use fewer conditions.",
    )


def _owe(workspace_id: int, seconds: float) -> None:
    if len(owed) >= _MOST_REMEMBERED:
        owed.clear()
    owed[workspace_id] = _owed_by(workspace_id) + seconds, time.monotonic()


def _owed_by(workspace_id: int) -> float:
    seconds, at = owed.get(workspace_id, (0.0, 0.0))
    return max(0.0, seconds - (time.monotonic() - at) * MINUTE_SECONDS / 60)

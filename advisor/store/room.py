"""The room that a run may take in memory and be worked through in, counted while it is read.

Each bound is a number of things, never a time: a run is judged the same way on a busy machine.
`bench/bounds.py` measures what runs at the bounds take.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

MOST_VALUES = 12_000_000
"""Cells times series of all nodes, and half of their ticks: 96 MB."""
TICKS_A_VALUE = 2
"""Ticks are float32."""
MOST_SERIES = 60_000
"""The most series of all nodes: 600 nodes with 100 series, with 200 cells each."""
MOST_GPUS = 256
"""The most GPUs of one node. Agents declare at most 64."""
MOST_STEP_ROWS = 2_000_000
"""80 MB. Beyond them, steps are summarised."""
MOST_EVENTS = 300_000
"""Each is a small document: 150 MB. Beyond them, metrics are thinned."""
MOST_PARTS = 3_000_000
"""Series times stored hours: a month of 40 nodes with 100 series."""
MOST_HOUR_SAMPLES = 10_000_000
"""The most samples of one node's hour that is not compacted yet: 2,700 a second."""
MOST_HOUR_STEPS = 1_500_000
MOST_HOUR_EVENTS = 400_000
MANY_SAMPLES = 1_000_000
"""The samples of an hour that is not compacted yet from which on memory counts more than time."""


class RoomExceededError(RuntimeError):
    """There is more than can be read at once; the message says of what, in words."""


class TooFineError(RuntimeError):
    """The grid has too many cells for the run's series."""


class Room:
    """The room that one reading of a run has used up.

    Args:
        alive: called now and then while it reads.
    """

    def __init__(self, alive: Callable[[], object] = lambda: None) -> None:
        self._alive = alive
        self._used: dict[str, int] = defaultdict(int)

    def take_series(self, cells: int, ticks: int) -> None:
        """Take the room before a series gets its cells and ticks. Raises TooFineError or
        TooLargeError.
        """
        self._take("series", 1, MOST_SERIES)
        self._used["values"] += cells + ticks // TICKS_A_VALUE
        if self._used["values"] > MOST_VALUES:
            raise TooFineError

    def take_hour(self, series: int, gpus: int) -> None:
        """Take the room after an hour of a node was read, which now has so many GPUs. Raises
        TooLargeError.
        """
        self._alive()
        if gpus > MOST_GPUS:
            raise RoomExceededError(f"more than {MOST_GPUS} GPUs on one node")
        self._take("hours of all series together", series, MOST_PARTS)

    def check_hour(self, samples: int, steps: int = 0, events: int = 0) -> None:
        """Check the room before more of one hour is decoded. Raises TooLargeError."""
        found = (
            ("samples", samples, MOST_HOUR_SAMPLES),
            ("training steps", steps, MOST_HOUR_STEPS),
            ("events", events, MOST_HOUR_EVENTS),
        )
        for what, count, most in found:
            if count > most:
                raise RoomExceededError(f"more than {most:,} {what} of one node in one hour")

    def _take(self, what: str, count: int, most: int) -> None:
        self._used[what] += count
        if self._used[what] > most:
            raise RoomExceededError(f"more than {most:,} {what}")

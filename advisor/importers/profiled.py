"""What recordings of profilers have in common: operators of the time that was profiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.importers.recording import NO_LABELS, Floats, Steps
from advisor.importers.tally import Operator, Tally
from advisor.importers.trace_events import Operators


class Profiled:
    """See `recording.Recording`."""

    training_job, job, provider, owns_machine = "", "", "", False
    state, labels = "finished", NO_LABELS

    def __init__(self, tally: Tally) -> None:
        self.statistics: dict[str, Any] = {}
        self._sums = Operators()
        tally.note("A trace covers the time that was profiled, and profiling slows it down.")
        tally.note("The files don't say how the run ended. It counts as finished.")

    @property
    def operators(self) -> list[Operator]:
        return self._sums.most_expensive()


def training_steps(rank: int, start_us: Floats, end_us: Floats) -> Steps:
    """Of one rank, in Unix microseconds."""
    start, length = np.round(start_us), np.round(end_us - start_us)
    return Steps(rank, "train", start.astype("int64"), length.astype("int64"))

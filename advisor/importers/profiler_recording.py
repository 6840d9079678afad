"""The common part of recordings of profilers: operators of the time that was profiled."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from advisor.importers.activity import TimedOperation
from advisor.importers.operator_times import OperatorTimes
from advisor.importers.recording import NO_LABELS, Floats, Steps
from advisor.importers.tally import Operator, Tally
from advisor.importers.trace_events import Operators


class NamedOperation(TimedOperation, Protocol):
    """An operation with a name."""

    @property
    def name(self) -> str: ...


class ProfilerRecording:
    """See `recording.Recording`."""

    training_job, job, provider, owns_machine = "", "", "", False
    state, labels = "finished", NO_LABELS

    def __init__(self, tally: Tally) -> None:
        self.statistics: dict[str, Any] = {}
        self._sums = Operators()
        self._times = OperatorTimes()
        tally.note("A trace covers the time that was profiled, and profiling slows it down.")
        tally.note("The files don't say how the run ended. It counts as finished.")

    @property
    def operators(self) -> list[Operator]:
        return self._sums.most_expensive()

    @property
    def operator_times(self) -> dict[str, Any]:
        return self._times.document()

    def _place(
        self,
        node: str,
        category: str,
        span: NamedOperation,
        caller: tuple[str, NamedOperation] | None,
    ) -> None:
        """Add one operation that may have a caller, given with its category: the time isn't its
        own.
        """
        self._times.add(node, category, span.name, span.start_us, span.end_us)
        if caller is not None:
            of, outer = caller
            end_us = min(span.end_us, outer.end_us)
            self._times.add(node, of, outer.name, span.start_us, end_us, sign=-1)


def training_steps(rank: int, start_us: Floats, end_us: Floats) -> Steps:
    """Return the training steps of one rank, in Unix microseconds."""
    start, length = np.round(start_us), np.round(end_us - start_us)
    return Steps(rank, "train", start.astype("int64"), length.astype("int64"))

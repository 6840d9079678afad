"""The interface of importers: the parts of a recording, node by node and in the order of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.importers.tally import Operator, Tally

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


METRIC = "metric"
"""The kind of `Happening` that is a value the training logged; see `labels.metric`."""


UNKNOWN_END = "The files don't say how the run ended. It counts as finished."
"""A note; withdrawn if something else says how it ended."""


class NotImportableError(ValueError):
    """Nothing of the recording can be imported. The message says why and what to do."""


def cadence(times_ms: Whole) -> int:
    """Return the time between two ticks as it was probably meant: whole tenths of a second, in
    ms.
    """
    measured = float(np.median(np.diff(times_ms)))
    return int(min(max(round(measured / 100) * 100, 100), 3_600_000))


@dataclass(frozen=True)
class Samples:
    """Ticks of one node.

    Attributes:
        cadence_ms: the intended time between two ticks.
        times_ms: Unix milliseconds, rising.
        columns: series -> a value for each tick; NaN: missing. Counters are whole numbers.
    """

    cadence_ms: int
    times_ms: Whole
    columns: dict[str, Floats]


@dataclass(frozen=True)
class Steps:
    """Training steps of one rank and phase.

    Attributes:
        start_us: Unix microseconds.
        data_wait_us: the part of the duration spent waiting for data; None: not measured.
    """

    rank: int
    phase: str
    start_us: Whole
    duration_us: Whole
    data_wait_us: Whole | None = None


@dataclass(frozen=True)
class Happening:
    """An event of the wire (`trimtab.wire.Event`) at a Unix millisecond."""

    time_ms: int
    kind: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SignOfLife:
    """The node was at work until this Unix millisecond at least."""

    until_ms: int


Part = Samples | Steps | Happening | SignOfLife


@dataclass(frozen=True)
class Labels:
    """The labels that a recording gives the run itself; made by `labels.parameters_of` and
    `tags_of`.

    Attributes:
        parameters: name -> text, finite number, truth value or None.
        tags: name -> text.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


NO_LABELS = Labels()


@dataclass(frozen=True)
class RecordedMachine:
    """The facts that a recording has of a machine. 0 and empty are unknown.

    Attributes:
        gpus: model and bytes of memory of each.
    """

    vcpus: int = 0
    memory_bytes: int = 0
    cpu_model: str = ""
    gpus: tuple[tuple[str, int], ...] = ()


@dataclass
class RecordedNode:
    """One machine of a recording.

    Attributes:
        name: as the recording names it.
        started_ms: Unix milliseconds of the first record, or when the machine was held from.
        ended_ms: until when it was held at least; None: until its last record.
        gpus: how many it had, if that is known without a sample of them.
    """

    name: str
    started_ms: int
    ended_ms: int | None = None
    gpus: int = 0
    machine: RecordedMachine = RecordedMachine()


class SamplesOnly:
    """The common part of recordings of samples alone. See `Recording`."""

    training_job, job, provider, owns_machine, state = "", "", "", False, "finished"
    labels: Labels = NO_LABELS

    def __init__(self, tally: Tally) -> None:
        self.operators: list[Operator] = []
        self.operator_times: dict[str, Any] = {}
        self.statistics: dict[str, Any] = {}
        tally.note(UNKNOWN_END)


class Recording(Protocol):
    """An opened recording.

    Attributes:
        format: the name of the format, for people.
        training_job: the name that its platform gave the run; empty: none.
        job: the job's name, as far as the recording says; empty: it doesn't.
        provider: whose machines they were, if only one can be.
        owns_machine: its machines were started for it alone.
        state: `finished`, `failed` or `stopped`.
        labels: parameters and tags; complete once all parts were read.
    """

    format: str
    training_job: str
    job: str
    provider: str
    owns_machine: bool
    state: str
    nodes: list[RecordedNode]
    labels: Labels
    operators: list[Operator]
    """Complete once all parts were read."""
    statistics: dict[str, Any]
    """Tables of the recording itself, as JSON; complete once all parts were read."""
    operator_times: dict[str, Any]
    """See `operator_times.OperatorTimes.document`; empty: it has no operators."""

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        """Read a node's parts in about the order of their times."""

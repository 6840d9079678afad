"""Scalars that a training wrote for TensorBoard: its metrics, over time.

A folder is one training: its files and those of its sub-folders (`train`, `validation`) whose times
overlap.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from advisor.importers.labels import MOST_LABELS, metric, parameters_of
from advisor.importers.protobuf import DamagedError
from advisor.importers.recording import (
    Labels,
    NotImportableError,
    Part,
    RecordedNode,
    SamplesOnly,
)
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts, to_printable_name
from advisor.importers.tally import Tally
from advisor.importers.tensorboard.events import Scalar, Session, parts_of
from advisor.importers.tensorboard.records import records
from advisor.importers.times import is_possible

FORMAT = "TensorBoard"
_MOST_FILES = 10_000
_NAME = re.compile(r"(?:.*/)?events\.out\.tfevents\.\d+(?:\.\d+)?(?:\.(?P<host>[^/]*))?")
_OF_PROCESS = re.compile(r"(?:\.\d{1,20}){0,2}(?:\.v2)?\Z")
"""The end of a name after the host's name: process id, and number."""
_APART_SECONDS = 60.0
"""The most time between runs of different folders that are one training."""


def recognises(source: Source) -> bool:
    """Return whether a file is named as TensorBoard's writers name theirs."""
    return any(True for _ in _candidates(source))


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> TensorBoardRecording:
    """Open all event files of one training.

    Raises:
        NotImportableError: none has a scalar.
    """
    del stated
    return TensorBoardRecording(source, tally)


@dataclass
class _Run:
    """The files of one folder, and the Unix times of their events."""

    paths: list[str] = field(default_factory=list)
    scalars: int = 0
    first: float = float("inf")
    last: float = 0.0
    parameters: dict[str, Any] = field(default_factory=dict)
    state: str = ""

    def meets(self, other: _Run) -> bool:
        return (
            self.first <= other.last + _APART_SECONDS and other.first <= self.last + _APART_SECONDS
        )


class TensorBoardRecording(SamplesOnly):
    """One machine. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, tally: Tally) -> None:
        super().__init__(tally)
        self._source, self._tally = source, tally
        every: dict[str, _Run] = defaultdict(_Run)
        for path in _candidates(source):
            folder = PurePosixPath(path).parent.as_posix()
            every[folder].paths.append(path)
            self._look(every[folder], path)
        self._runs = _of_one_training({name: run for name, run in every.items() if run.scalars})
        if not self._runs:
            raise NotImportableError("no scalar in its event files")
        left = sum(len(run.paths) for name, run in every.items() if name not in self._runs)
        tally.skip("files", "no scalars, or another training: import its folder alone", left)
        said = [run for name, run in every.items() if name in self._runs or not run.scalars]
        self.state = next((run.state for run in said if run.state), self.state)
        parameters = {name: value for run in said for name, value in run.parameters.items()}
        self.labels = Labels(parameters_of(parameters, tally))
        first = min(run.first for run in self._runs.values())
        self.nodes = [RecordedNode(self._host(), round(first * 1000))]
        tally.note(
            "TensorBoard's steps aren't timed: the run has metrics, but no training steps and no "
            "samples."
        )

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        del node
        for folder, run in self._runs.items():
            before = f"{folder}/" if len(self._runs) > 1 and folder != "." else ""
            for path in run.paths:
                for each in self._scalars(path, self._tally):
                    self._tally.take("metrics")
                    at_ms = round(each.seconds * 1000)
                    yield metric(at_ms, f"{before}{each.tag}", each.value, each.step)

    def _look(self, run: _Run, path: str) -> None:
        """Find when the run's scalars were written, and what the file says of the training."""
        for part in self._parts(path, Tally()):
            if isinstance(part, Session):
                if len(run.parameters) <= MOST_LABELS:
                    run.parameters |= part.parameters
                run.state = part.state or run.state
            else:
                run.scalars += 1
                run.first, run.last = min(run.first, part.seconds), max(run.last, part.seconds)

    def _scalars(self, path: str, tally: Tally) -> Iterator[Scalar]:
        return (part for part in self._parts(path, tally) if isinstance(part, Scalar))

    def _parts(self, path: str, tally: Tally) -> Iterator[Scalar | Session]:
        try:
            with (self._source.folder / path).open("rb") as file:
                for record in records(file, tally, path):
                    try:
                        found = list(parts_of(record))
                    except DamagedError:
                        tally.skip("records", "not a whole event", 1, path)
                        continue
                    for part in found:
                        if isinstance(part, Session) or is_possible(part.seconds):
                            yield part
                        else:
                            tally.skip("metrics", "an impossible time", 1, path)
        except OSError as error:
            tally.skip("files", f"can't be read: {error.strerror}", 1, path)

    def _host(self) -> str:
        path = next(path for run in self._runs.values() for path in run.paths)
        found = _NAME.fullmatch(path)
        host = _OF_PROCESS.sub("", found["host"] or "") if found else ""
        return to_printable_name(host) or "machine"


def _of_one_training(runs: dict[str, _Run]) -> dict[str, _Run]:
    """Return the runs at about the time of the one with the most scalars."""
    if not runs:
        return {}
    main = max(runs.values(), key=lambda run: run.scalars)
    return {name: run for name, run in sorted(runs.items()) if run.meets(main)}


def _candidates(source: Source) -> Iterator[str]:
    return islice((path for path in source.sizes if _NAME.fullmatch(path)), _MOST_FILES)

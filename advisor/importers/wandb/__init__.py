"""A run that W&B wrote to disk (`run-ID.wandb`): metrics, configuration, system metrics.

Every run is written so, offline or not. No package of W&B's is needed to read it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from advisor.importers.labels import metric, parameters_of, tags_of
from advisor.importers.protobuf import DamagedError
from advisor.importers.recording import (
    Happening,
    Labels,
    NotImportableError,
    Part,
    RecordedMachine,
    RecordedNode,
    Samples,
    SamplesOnly,
    cadence,
)
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Operator, Tally
from advisor.importers.times import is_possible
from advisor.importers.wandb import messages, system
from advisor.importers.wandb.messages import Logged, WandbRun
from advisor.importers.wandb.records import HEAD, records

FORMAT = "W&B"
_MOST_FILES = 10_000
_NAME = re.compile(r"(?:.*/)?run-[^/]*\.wandb")
_TICKS_A_PART = 3600
_MOST_NODES, _MOST_LABELS = 64, 1_000
_STEPS = {"_step", "_timestamp", "_runtime"}
"""W&B's own values of a history."""
_ONLY = "machine"


def recognises(source: Source) -> bool:
    """Return whether a file is one of W&B's."""
    return any(True for _ in _candidates(source))


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> WandbRecording:
    """Open the first run.

    Raises:
        NotImportableError: nothing in it has a time.
    """
    del stated
    return WandbRecording(source, tally)


class WandbRecording(SamplesOnly):
    """One run. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, tally: Tally) -> None:
        self.operators: list[Operator] = []
        self.operator_times: dict[str, Any] = {}
        self.statistics: dict[str, Any] = {}
        self._source, self._tally = source, tally
        self._path, *others = _candidates(source)
        tally.skip("files", "another run: import its folder alone", len(others))
        self._run, self._first, self._last = WandbRun(), math.inf, 0.0
        self._labels: Counter[str] = Counter()
        self._look()
        if self._first == math.inf:
            raise NotImportableError("no record of the run has a time")
        self.job = self._run.texts.get("project", "")
        self.state = "failed" if self._run.exit_code else "finished"
        self.labels = Labels(parameters_of(self._run.config, tally), self._tags())
        self.nodes = self._nodes()
        if self._run.exit_code is None:
            tally.note(
                "The file has no end: the program was killed, or continued. It counts as finished "
                "at its last record."
            )
        tally.note("W&B's steps are its log calls: the run has metrics, but no training steps.")

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        label = "" if node.name not in self._labels else node.name
        is_first = node is self.nodes[0]
        yield from self._samples(label, is_first)
        if is_first:
            yield from self._metrics()

    def _look(self) -> None:
        """Read what the file says of its run, and when it began."""
        for kind, content in self._contents(Tally()):
            try:
                messages.add_to(self._run, kind, content)
                logged = _logged(kind, content)
            except DamagedError:
                continue
            if logged and logged.seconds is not None and is_possible(logged.seconds):
                self._first = min(self._first, logged.seconds)
                self._last = max(self._last, logged.seconds)
            if kind == messages.STATS and logged and len(self._labels) < _MOST_LABELS:
                self._labels.update(filter(None, map(system.node_of, logged.values)))
        if is_possible(self._run.start_seconds):
            self._first = min(self._first, self._run.start_seconds)
        said = self._run.summary.get("_timestamp")
        if not self._last and isinstance(said, int | float) and is_possible(said):
            self._first, self._last = min(self._first, said), said

    def _nodes(self) -> list[RecordedNode]:
        began_ms = int(self._first * 1000)
        host = self._run.texts.get("host", "") or _ONLY
        if len(self._labels) > 1:
            names = [name for name, _ in self._labels.most_common(_MOST_NODES)]
            return [
                RecordedNode(name, began_ms, machine=RecordedMachine()) for name in sorted(names)
            ]
        return [RecordedNode(host, began_ms, machine=self._run.machine)]

    def _tags(self) -> dict[str, str]:
        texts = self._run.texts
        named = {"run": "name", "group": "group", "job type": "job_type", "W&B run": "run_id"}
        found = {name: texts[key] for name, key in named.items() if texts.get(key)}
        if self._run.tags:
            found["tags"] = ", ".join(self._run.tags)
        return tags_of(found, self._tally)

    def _samples(self, label: str, is_first: bool) -> Iterator[Samples]:
        ticks = self._rising(label, self._tally if is_first else Tally())
        cadence_ms = 0
        while batch := list(islice(ticks, _TICKS_A_PART)):
            times_ms = np.array([at for at, _ in batch], dtype="int64")
            if len(times_ms) > 1 and not cadence_ms:
                cadence_ms = cadence(times_ms)
            columns = system.columns(batch)
            known = sum(int(np.isfinite(values).sum()) for values in columns.values())
            self._tally.take("samples", known)
            yield Samples(cadence_ms or 1000, times_ms, columns)

    def _rising(self, label: str, tally: Tally) -> Iterator[system.Tick]:
        last_ms = 0
        for at_ms, values in system.ticks(self._statistics(label, tally)):
            if at_ms > last_ms:
                last_ms = at_ms
                yield at_ms, values
            else:
                tally.skip("samples", "not later than those before", len(values), self._path)

    def _statistics(self, label: str, tally: Tally) -> Iterator[system.Tick]:
        for logged in self._rows(messages.STATS, tally):
            found = {}
            for key, said in logged.values.items():
                place = system.place_of(key)
                if place is None:
                    tally.skip("samples", "no series of ours", 1, key)
                elif len(self._labels) < 2 or system.node_of(key) == label:
                    found[place[0]] = system.number(said, place[1])
            if found and logged.seconds is not None:
                yield round(logged.seconds * 1000), found

    def _metrics(self) -> Iterator[Happening]:
        """Yield what was logged, and at the end what only the summary has."""
        logged_keys: set[str] = set()
        for logged in self._rows(messages.HISTORY, Tally()):
            step = _whole(logged.step)
            for key, said in logged.values.items():
                if key in _STEPS:
                    continue
                logged_keys.add(key)
                value = _number(said)
                if value is None or logged.seconds is None:
                    self._tally.skip("values", "no number", 1, key)
                    continue
                self._tally.take("metrics")
                yield metric(round(logged.seconds * 1000), key, value, step)

        yield from self._summary(logged_keys)

    def _summary(self, logged_keys: set[str]) -> Iterator[Happening]:
        at_ms = round(max(self._last, self._first) * 1000)
        for key, said in self._run.summary.items():
            if key in logged_keys or key.startswith("_"):
                continue
            value = _number(said)
            if value is None:
                self._tally.skip("values", "no number", 1, key)
            else:
                self._tally.take("metrics")
                yield metric(at_ms, key, value, None)

    def _rows(self, wanted: int, tally: Tally) -> Iterator[Logged]:
        """Yield the rows of one kind that have a time."""
        for kind, content in self._contents(tally):
            try:
                logged = _logged(kind, content) if kind == wanted else None
            except DamagedError:
                tally.skip("records", "not a whole message", 1, self._path)
                continue
            if logged is None:
                continue
            if logged.seconds is not None and is_possible(logged.seconds):
                yield logged
            else:
                tally.skip("records", "no possible time", 1, self._path)

    def _contents(self, tally: Tally) -> Iterator[tuple[int, memoryview]]:
        with (self._source.folder / self._path).open("rb") as file:
            for record in records(file, tally, self._path):
                try:
                    yield messages.kind_of(record)
                except DamagedError:
                    tally.skip("records", "not a whole message", 1, self._path)


def _logged(kind: int, content: memoryview) -> Logged | None:
    """Return what a record logged, or None for another kind. Raises DamagedError."""
    if kind == messages.HISTORY:
        return messages.history(content)
    return messages.statistics(content) if kind == messages.STATS else None


def _whole(said: object) -> int | None:
    return said if isinstance(said, int) and abs(said) < 2**53 else None


def _number(said: object) -> float | None:
    """Return the number; None for truth values, texts, images, ..."""
    if isinstance(said, bool) or not isinstance(said, int | float):
        return None
    try:
        return float(said)
    except OverflowError:
        return None


def _candidates(source: Source) -> Iterator[str]:
    named = (path for path in source.sizes if _NAME.fullmatch(path))
    return islice((path for path in named if source.head(path, len(HEAD)) == HEAD), _MOST_FILES)

"""Timelines of the training's processes: steps, data loading, operators, communication."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from advisor.importers.operator_times import OperatorTimes
from advisor.importers.recording import Happening, NotImportableError, SignOfLife, Steps
from advisor.importers.sagemaker.layout import TimelineFile
from advisor.importers.sagemaker.system import EARLIEST_SECONDS
from advisor.importers.source import Source
from advisor.importers.tally import Tally
from advisor.importers.trace_events import Operators, Span, Trace, events_of, trace_of

_STEP, _LOADERS, _GET_NEXT = "Step:", "DataLoaderIterInitialize", "GetNext"
_PHASES = {"EVAL": "evaluate", "PREDICT": "evaluate"}
COMMUNICATION, DATA = "communication", "data loading"
FORWARD, BACKWARD = "forward pass", "backward pass"
_CATEGORIES = (
    ("cpu_functions", "CPU operators"),
    ("gpu_functions", "GPU operators"),
    ("/host:CPU", "CPU operators"),
    ("/device:GPU", "GPU operators"),
    ("Forward", FORWARD),
    ("Backward", BACKWARD),
    ("DataLoader", DATA),
    ("DataIterator", DATA),
    ("Dataset", DATA),
    ("NcclManager", COMMUNICATION),
)
_LATEST_US = 4 * 10**15
"""The year 2096."""


def category_of(kind: str, phase: str) -> str:
    """Return the category of a phase's operations."""
    if kind in ("horovod", "smdataparallel"):
        return COMMUNICATION
    return next((name for start, name in _CATEGORIES if phase.startswith(start)), "other")


@dataclass
class _Process:
    """The steps of one process, over its files."""

    rank: int
    has_loader: bool = False
    last_end_us: dict[str, int] = field(default_factory=dict)


class Timelines:
    """All timelines of a job. Times of files without a base are unknown: only sums are kept."""

    def __init__(self, source: Source, ranks: dict[tuple[str, str], int], tally: Tally) -> None:
        """Read from `source`. `ranks`: (node, process) -> rank."""
        self._source, self._tally = source, tally
        self._processes = {key: _Process(rank) for key, rank in ranks.items()}
        self.operators, self.times = Operators(), OperatorTimes()

    def parts(self, node: str, file: TimelineFile) -> Iterator[Steps | Happening | SignOfLife]:
        trace = self._trace(file)
        if trace is None:
            return
        base_us = base_of(trace, file)
        process = self._processes.get((node, file.process))
        steps: dict[str, list[Span]] = defaultdict(list)
        waits: list[Span] = []
        loaders: list[Span] = []
        categories: dict[int, tuple[str, str]] = {}
        for span in trace.spans:
            if span.pid not in categories:
                phase = trace.phases.get(span.pid, "")
                categories[span.pid] = phase, category_of(file.kind, phase)
            phase, category = categories[span.pid]
            if phase.startswith(_STEP):
                steps[phase].append(span)
                continue
            self.operators.add(category, span.name or phase, span.duration_us)
            if base_us is not None and _is_time(start_us := base_us + span.start_us):
                end_us = start_us + span.duration_us
                self.times.add(node, category, span.name or phase, start_us, end_us)
            if phase == "DataLoaderIter" and span.name.endswith(_GET_NEXT):
                waits.append(span)
            elif phase == _LOADERS:
                loaders.append(span)
        self._count(steps, trace)
        if base_us is not None and trace.spans:
            last = max(span.start_us + span.duration_us for span in trace.spans)
            yield SignOfLife(int(base_us + last) // 1000)
        if process is None or not (steps or loaders):
            return
        if base_us is None:
            self._tally.note("Steps without an absolute time are counted, but not placed.")
            return
        yield from self._loaders(process, loaders, base_us)
        for phase, spans in steps.items():
            yield from self._steps(process, phase, spans, waits, base_us)

    def _trace(self, file: TimelineFile) -> Trace | None:
        try:
            events = events_of(self._source, file.path, self._tally)
        except (NotImportableError, OSError) as error:
            self._tally.skip("files", f"can't be read: {error}", 1, file.path)
            return None
        return trace_of(events, file.path, self._tally)

    def _count(self, steps: dict[str, list[Span]], trace: Trace) -> None:
        count = sum(map(len, steps.values()))
        self._tally.take("steps", count)
        self._tally.take("operations", len(trace.spans) - count)
        self._tally.take("moments", trace.moments)

    def _loaders(self, process: _Process, spans: list[Span], base_us: int) -> Iterator[Happening]:
        """Yield the loader's settings, once a process."""
        for span in spans[:1]:
            workers = _whole(span.args.get("num_workers"))
            if workers is None or process.has_loader or not _is_time(base_us + span.start_us):
                continue
            process.has_loader = True
            pinned = str(span.args.get("pin_memory")).lower()
            data = {"rank": process.rank, "phase": "train", "workers": workers}
            if pinned in ("true", "false"):
                data["pin_memory"] = pinned == "true"
            yield Happening(int(base_us + span.start_us) // 1000, "loader", data)

    def _steps(
        self, process: _Process, phase: str, spans: list[Span], waits: list[Span], base_us: int
    ) -> Iterator[Steps]:
        start = np.array([span.start_us for span in spans], dtype="float64") + base_us
        length = np.array([span.duration_us for span in spans], dtype="float64")
        possible = (start > EARLIEST_SECONDS * 1e6) & (start + length < _LATEST_US)
        self._tally.skip("records", "a time outside of the job", int((~possible).sum()))
        start_us = np.round(start[possible]).astype("int64")
        length_us = np.round(length[possible]).astype("int64")
        order = np.argsort(start_us, kind="stable")
        start_us, length_us = start_us[order], length_us[order]
        if not len(start_us):
            return
        ours = _PHASES.get(phase.rpartition(".")[2], "train")
        before = process.last_end_us.get(ours, 0)
        process.last_end_us[ours] = int((start_us + length_us).max())
        if not waits:
            yield Steps(process.rank, ours, start_us, length_us)
            return
        ends = np.concatenate([[before], (start_us + length_us)[:-1]])
        waited = _waits(start_us, ends, waits, base_us)
        # A step lasts from the end of the one before it, if it waited for its data since then.
        yield Steps(process.rank, ours, start_us - waited, length_us + waited, waited)


def _waits(
    start_us: np.ndarray, before_us: np.ndarray, waits: list[Span], base_us: int
) -> np.ndarray:
    """Return the time each step's process waited for data between the step before it and the
    step.
    """
    begins = np.array([span.start_us for span in waits], dtype="float64") + base_us
    ends = begins + np.array([span.duration_us for span in waits], dtype="float64")
    step = np.searchsorted(start_us, ends - 1)
    inside = step < len(start_us)
    step, begins, ends = step[inside], begins[inside], ends[inside]
    overlap = np.minimum(ends, start_us[step]) - np.maximum(begins, before_us[step])
    waited = np.zeros(len(start_us))
    np.add.at(waited, step, np.maximum(overlap, 0))
    between = np.where(before_us > 0, start_us - before_us, waited)
    return np.minimum(waited, np.maximum(between, 0)).astype("int64")


def first_us(source: Source, file: TimelineFile) -> int | None:
    """Return when the first step of a file began; else its first operation."""
    try:
        trace = trace_of(events_of(source, file.path, Tally()), file.path, Tally())
    except (NotImportableError, OSError):
        return None
    base_us = base_of(trace, file)
    if base_us is None:
        return None
    spans = [span for span in trace.spans if trace.phases.get(span.pid, "").startswith(_STEP)]
    starts = (base_us + span.start_us for span in spans or trace.spans)
    first = min((at for at in starts if _is_time(at)), default=None)
    return None if first is None else int(first)


def base_of(trace: Trace, file: TimelineFile) -> int | None:
    """Return the Unix microseconds from which a file's times count; None if unknown."""
    if trace.base_us or file.base_us:
        return trace.base_us or file.base_us
    last = max((span.start_us + span.duration_us for span in trace.spans), default=0.0)
    if _is_time(last):
        return 0
    # A file is named after the end of its last event.
    return int(file.end_us - last) if file.end_us and last else None


def _is_time(at_us: float) -> bool:
    return EARLIEST_SECONDS * 1e6 < at_us < _LATEST_US


def _whole(value: object) -> int | None:
    try:
        number = int(str(value))
    except ValueError:
        return None
    return number if 0 <= number < 10_000 else None

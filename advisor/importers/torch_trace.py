"""Traces of PyTorch's profiler (Kineto), as `export_chrome_trace` and `--profile-steps` write them.

One file is one process. Operations nest: the time of an operator includes that of those it called,
so shares are told by the time of its own, as `key_averages()` has it (`self_cpu_time_total`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from advisor.importers.activity import (
    CALLS,
    COMMUNICATION,
    COPIES,
    CPU,
    KERNELS,
    MOST_GPUS,
    busy_samples,
    is_collective,
    own_times,
    union,
)
from advisor.importers.profiled import Profiled
from advisor.importers.recording import (
    Floats,
    NotImportableError,
    Part,
    RecordedNode,
    Samples,
    Seen,
    Steps,
    Whole,
)
from advisor.importers.source import Source
from advisor.importers.stated import Stated, readable
from advisor.importers.tally import Tally
from advisor.importers.trace_events import MOST_US, events_of
from advisor.store.index import to_ms

FORMAT = "PyTorch profiler"
_MOST_FILES = 1024
_NAME = re.compile(r".*\.json(?:\.gz)?")
_HEAD_BYTES = 64 * 1024
"""Before the events: when times begin, and the rank."""
_OF_ITS_OWN = re.compile(rb'^\s*\{\s*"schemaVersion"\s*:')
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,20})\b')
_HOST = re.compile(rb'"host_name"\s*:\s*"([^"\\]{1,200})"')
_RANK = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*"rank"\s*:\s*(\d{1,7})\b')
_FIRST_TRACE_US = 1_262_304_000 * 10**6
"""2010: earlier times count from something else than 1970, such as the machine's start."""
_STEP = re.compile(r"ProfilerStep#\d+")
_OPTIMIZER, _LOADER = "Optimizer.step#", "enumerate(DataLoader)#"
_CATEGORIES = {
    "cpu_op": CPU,
    "user_annotation": CPU,
    "kernel": KERNELS,
    "gpu_memcpy": COPIES,
    "gpu_memset": COPIES,
    "cuda_runtime": CALLS,
    "cuda_driver": CALLS,
}


def recognises(source: Source) -> bool:
    """Whether a file begins as Kineto's do."""
    return any(_is_trace(source, path) for path in _candidates(source))


def opened(source: Source, stated: Stated, tally: Tally) -> TorchRecording:
    """Open all traces of a folder: one a process.

    Raises:
        NotImportableError: none of them can be read, or none has a time.
    """
    return TorchRecording(source, to_ms(stated.imported_at), tally)


class _Span(NamedTuple):
    """Microseconds since 1970, or of the file's own clock."""

    name: str
    category: str
    start_us: float
    end_us: float
    thread: tuple[str, str]
    gpu: int | None


@dataclass
class _Process:
    """One trace."""

    rank: int
    host: str
    steps: list[_Span] = field(default_factory=list)
    optimizer: list[_Span] = field(default_factory=list)
    waits: list[_Span] = field(default_factory=list)
    on_gpu: dict[int, list[_Span]] = field(default_factory=lambda: defaultdict(list))
    first_us: float = np.inf
    last_us: float = 0.0

    def shift(self, by_us: float) -> None:
        """Move its clock."""
        for spans in (self.steps, self.optimizer, self.waits, *self.on_gpu.values()):
            spans[:] = [
                s._replace(start_us=s.start_us + by_us, end_us=s.end_us + by_us) for s in spans
            ]
        self.first_us, self.last_us = self.first_us + by_us, self.last_us + by_us


class TorchRecording(Profiled):
    """The processes of one or several machines. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, imported_ms: int, tally: Tally) -> None:
        super().__init__(tally)
        self._source, self._tally = source, tally
        paths = [path for path in _candidates(source) if _is_trace(source, path)]
        self._processes = [self._read(path, place) for place, path in enumerate(paths)]
        seen = [each for each in self._processes if each.last_us]
        if not seen:
            raise NotImportableError("no operation with a time in its traces")
        self._by_host: dict[str, list[_Process]] = defaultdict(list)
        for each in seen:
            self._by_host[each.host].append(each)
        self._dated(imported_ms)
        self.nodes = [_node(host, own) for host, own in sorted(self._by_host.items())]

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        own = self._by_host[node.name]
        ended_ms = int(max(each.last_us for each in own) // 1000) + 1
        yield Seen(ended_ms)
        yield from self._gpu_samples(own, node.started_ms, ended_ms)
        for process in own:
            if steps := _steps_of(process):
                self._tally.take("steps", len(steps.start_us))
                yield steps

    def _dated(self, imported_ms: int) -> None:
        """Files without a time of day begin when they are imported, a machine's together."""
        for own in self._by_host.values():
            first_us = min(each.first_us for each in own)
            if first_us < _FIRST_TRACE_US:
                for each in own:
                    each.shift(imported_ms * 1000 - first_us)
                self._times.shift(own[0].host, imported_ms * 1000 - first_us)
                self._tally.note(
                    "The files have no time of day. The run counts as begun when it was imported."
                )

    def _read(self, path: str, place: int) -> _Process:
        head = self._source.beginning(path, _HEAD_BYTES)
        host = _HOST.search(head)
        name = readable(host[1].decode(errors="replace")) if host else ""
        process = _Process(_number(_RANK, head, place), name or "machine")
        try:
            events = events_of(self._source, path, self._tally)
        except (NotImportableError, OSError) as error:
            self._tally.skip("files", f"can't be read: {error}", 1, path)
            return process
        by_thread: dict[tuple[str, str], list[_Span]] = defaultdict(list)
        base_us = _number(_BASE, head, 0) / 1000
        for event in events:
            span = _span(event, base_us)
            if span is None:
                self._skip(event, path)
                continue
            self._tally.take("operations")
            by_thread[span.thread].append(span)
            _sort(process, span)
        for spans in by_thread.values():
            self._add(process.host, spans)
        return process

    def _skip(self, event: object, path: str) -> None:
        """Flows, headers and marks are no operations; what is left of those is broken."""
        said = event if isinstance(event, dict) else {}
        if not isinstance(said.get("ph"), str):
            self._tally.skip("records", "not a trace event", 1, path)
        elif said["ph"] == "X" and str(said.get("cat")) in _CATEGORIES:
            self._tally.skip("records", "an impossible duration or time", 1, path)
        else:
            self._tally.take("moments")

    def _add(self, host: str, spans: list[_Span]) -> None:
        """The operations of one thread, each with the time that is its own."""
        for span, own_us, outer in own_times(spans):
            if not _STEP.fullmatch(span.name):
                length_us = span.end_us - span.start_us
                self._sums.add(span.category, span.name, length_us, own_us)
                caller = None
                if outer is not None and not _STEP.fullmatch(outer.name):
                    caller = outer.category, outer
                self._place(host, span.category, span, caller)

    def _gpu_samples(
        self, processes: Sequence[_Process], began_ms: int, ended_ms: int
    ) -> Iterator[Samples]:
        spans: dict[int, list[_Span]] = defaultdict(list)
        for process in processes:
            for gpu, own in process.on_gpu.items():
                spans[gpu] += own
        samples = busy_samples({gpu: _union(own) for gpu, own in spans.items()}, began_ms, ended_ms)
        if samples:
            self._tally.take("samples", len(samples.times_ms) * len(samples.columns))
            yield samples


def _node(host: str, processes: Sequence[_Process]) -> RecordedNode:
    gpus = {gpu for each in processes for gpu in each.on_gpu}
    began_ms = int(min(each.first_us for each in processes) // 1000)
    return RecordedNode(host, began_ms, gpus=max(gpus, default=-1) + 1)


def _candidates(source: Source) -> Iterator[str]:
    return islice((path for path in source.sizes if _NAME.fullmatch(path)), _MOST_FILES)


def _is_trace(source: Source, path: str) -> bool:
    return _OF_ITS_OWN.match(source.beginning(path)) is not None


def _number(pattern: re.Pattern[bytes], head: bytes, unknown: int) -> int:
    found = pattern.search(head)
    return int(found[1]) if found else unknown


def _span(event: Any, base_us: float) -> _Span | None:
    """None: it isn't an operation, or makes no sense."""
    try:
        category = _CATEGORIES[event["cat"]]
        start, length, name = event["ts"], event["dur"], str(event["name"])
        if event["ph"] != "X" or not (0 <= length <= MOST_US and 0 <= start + base_us < 4e15):
            return None
        gpu = _gpu(event) if category in (KERNELS, COPIES) else None
        if category == KERNELS and is_collective(name):
            category = COMMUNICATION
        at_us = start + base_us
        thread = str(event["pid"]), str(event["tid"])
        return _Span(name, category, at_us, at_us + length, thread, gpu)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _gpu(event: dict[str, Any]) -> int | None:
    args = event.get("args")
    gpu = args.get("device") if isinstance(args, dict) else None
    return gpu if isinstance(gpu, int) and 0 <= gpu < MOST_GPUS else None


def _sort(process: _Process, span: _Span) -> None:
    process.first_us = min(process.first_us, span.start_us)
    process.last_us = max(process.last_us, span.end_us)
    if span.gpu is not None:
        process.on_gpu[span.gpu].append(span)
    elif _STEP.fullmatch(span.name):
        process.steps.append(span)
    elif span.name.startswith(_OPTIMIZER):
        process.optimizer.append(span)
    elif span.name.startswith(_LOADER):
        process.waits.append(span)


def _steps_of(process: _Process) -> Steps | None:
    """The steps that the training marked (`profiler.step()`), else those that end with the
    optimizer's."""
    marked = sorted(process.steps, key=lambda span: span.start_us)
    spans = [(span.start_us, span.end_us) for span in marked]
    if not spans:
        ends = sorted(span.end_us for span in process.optimizer)
        spans = list(pairwise(ends))
    if not spans:
        return None
    start, end = (np.array(column) for column in zip(*spans, strict=True))
    waits = _waits(process.waits, start, end) if process.waits else None
    return Steps(process.rank, "train", _whole(start), _whole(end - start), waits)


def _waits(waits: Iterable[_Span], start: Floats, end: Floats) -> Whole:
    """Of each step the time in which the loader was asked for a batch."""
    spans = np.array([(wait.start_us, wait.end_us) for wait in waits]) - start[0]
    spent = _spent_before(spans, end - start[0]) - _spent_before(spans, start - start[0])
    return _whole(np.clip(spent, 0, end - start))


def _spent_before(spans: Floats, at: Floats) -> Floats:
    """Return the time of all spans that is before each moment: they may overlap."""
    found = np.zeros(len(at))
    for edges, sign in ((np.sort(spans[:, 0]), 1), (np.sort(spans[:, 1]), -1)):
        before = np.searchsorted(edges, at)
        sums = np.concatenate(([0.0], np.cumsum(edges)))
        found += sign * (before * at - sums[before])
    return found


def _whole(values: Floats) -> Whole:
    whole: Whole = np.round(values).astype("int64")
    return whole


def _union(spans: Sequence[_Span]) -> tuple[Floats, Floats]:
    start, end = (np.array(column) for column in zip(*[s[2:4] for s in spans], strict=True))
    return union(start, end)

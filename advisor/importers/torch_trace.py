"""Traces of PyTorch's profiler (Kineto), as `export_chrome_trace` and `--profile-steps` write them.

One file is one process. Operations nest: the time of an operator includes that of those it called,
so shares are told by the time of its own, as `key_averages()` has it (`self_cpu_time_total`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from advisor.importers.activity import busy_samples, union
from advisor.importers.profiler_recording import ProfilerRecording
from advisor.importers.recording import (
    Floats,
    NotImportableError,
    Part,
    RecordedNode,
    Samples,
    SignOfLife,
    Steps,
    Whole,
)
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts, to_printable_name
from advisor.importers.tally import Tally
from advisor.importers.torch_events import (
    CATEGORIES,
    LOADER,
    OPTIMIZER,
    STEP,
    TorchEvents,
    callers,
    read_events,
)
from advisor.store.index import to_ms

FORMAT = "PyTorch profiler"
_MOST_FILES = 1024
_NAME = re.compile(r".*\.json(?:\.gz)?")
_HEAD_BYTES = 64 * 1024
"""The bytes of the head that are searched for what only Kineto writes."""
_KINDS = (*CATEGORIES, "python_function", "ac2g", "cpu_instant_event", "gpu_user_annotation")
_KINETO = re.compile(
    r'\A\s*\{\s*"schemaVersion"\s*:|"baseTimeNanoseconds"\s*:'
    rf'|"cat"\s*:\s*"(?:{"|".join(_KINDS)})"'
)
_HOST = re.compile(rb'"host_name"\s*:\s*"([^"\\]{1,200})"')
_RANK = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*"rank"\s*:\s*(\d{1,7})\b')
_FIRST_TRACE_US = 1_262_304_000 * 10**6
"""2010: earlier times count from something else than 1970, such as the machine's start."""
Spans = tuple[Floats, Floats]
NO_SPANS: Spans = (np.zeros(0), np.zeros(0))


def recognises(source: Source) -> bool:
    """Return whether a file begins as Kineto's do."""
    return any(_is_trace(source, path) for path in _candidates(source))


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> TorchRecording:
    """Open all traces of a folder: one a process.

    Raises:
        NotImportableError: none of them can be read, or none has a time.
    """
    return TorchRecording(source, to_ms(stated.imported_at), tally)


@dataclass
class _Process:
    """The parts of one trace that are kept; times as pairs of starts and ends."""

    rank: int
    host: str
    steps: Spans = NO_SPANS
    optimizer: Spans = NO_SPANS
    waits: Spans = NO_SPANS
    on_gpu: dict[int, Spans] = field(default_factory=dict)
    first_us: float = np.inf
    last_us: float = 0.0

    def shift(self, by_us: float) -> None:
        """Move its clock."""
        self.steps, self.optimizer, self.waits = (
            _moved(spans, by_us) for spans in (self.steps, self.optimizer, self.waits)
        )
        self.on_gpu = {gpu: _moved(spans, by_us) for gpu, spans in self.on_gpu.items()}
        self.first_us, self.last_us = self.first_us + by_us, self.last_us + by_us


class TorchRecording(ProfilerRecording):
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
        yield SignOfLife(ended_ms)
        yield from self._gpu_samples(own, node.started_ms, ended_ms)
        for process in own:
            if steps := _steps_of(process):
                self._tally.take("steps", len(steps.start_us))
                yield steps

    def _dated(self, imported_ms: int) -> None:
        """Date files without a time of day: they begin when they are imported, a machine's
        together.
        """
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
        try:
            events = read_events(self._source, path, self._tally)
        except OSError as error:
            self._tally.skip("files", f"can't be read: {error}", 1, path)
            return _Process(place, "machine")
        host, rank = _HOST.search(events.around), _RANK.search(events.around)
        name = to_printable_name(host[1].decode(errors="replace")) if host else ""
        process = _Process(int(rank[1]) if rank else place, name or "machine")
        if len(events.start_us):
            process.first_us = float(events.start_us.min())
            process.last_us = float(events.end_us.max())
            process.steps, process.optimizer = events.find_spans(STEP), events.find_spans(OPTIMIZER)
            process.waits = events.find_spans(LOADER)
            process.on_gpu = {gpu: union(start, end) for gpu, start, end in events.by_gpu()}
            self._add(process.host, events)
        return process

    def _add(self, host: str, events: TorchEvents) -> None:
        """Sum the operations up, each with the time that is its own. Marked steps are none."""
        outer = callers(events)
        start_us, end_us = events.start_us, events.end_us
        inside = np.flatnonzero(outer >= 0)
        within_us = np.minimum(end_us[inside], end_us[outer[inside]]) - start_us[inside]
        called_us = np.bincount(outer[inside], within_us, minlength=len(outer))
        own_us = np.maximum(end_us - start_us - called_us, 0)
        is_step = np.array([name == STEP for _, name in events.names])[events.name]
        self._sum_up(events, own_us, ~is_step)
        numbers = np.array(
            [self._times.number(host, category, name) for category, name in events.names]
        )[events.name]
        self._times.add_all(numbers[~is_step], start_us[~is_step], end_us[~is_step])
        inside = inside[~is_step[inside] & ~is_step[outer[inside]]]
        caller = outer[inside]
        until_us = np.minimum(end_us[inside], end_us[caller])
        self._times.add_all(numbers[caller], start_us[inside], until_us, sign=-1)

    def _sum_up(self, events: TorchEvents, own: Floats, chosen: np.ndarray) -> None:
        length_us = events.end_us - events.start_us
        order = np.flatnonzero(chosen)
        order = order[np.argsort(events.name[order], kind="stable")]
        kinds, first, count = np.unique(events.name[order], return_index=True, return_counts=True)
        if not len(kinds):
            return
        total = np.add.reduceat(length_us[order], first)
        longest = np.maximum.reduceat(length_us[order], first)
        own = np.add.reduceat(own[order], first)
        columns = (each.tolist() for each in (kinds, count, total, longest, own))
        for kind, several, total_us, longest_us, own_us in zip(*columns, strict=True):
            category, name = events.names[kind]
            self._sums.add_all(category, name, several, total_us, longest_us, own_us)

    def _gpu_samples(
        self, processes: Sequence[_Process], began_ms: int, ended_ms: int
    ) -> Iterator[Samples]:
        spans: dict[int, list[Spans]] = defaultdict(list)
        for process in processes:
            for gpu, own in process.on_gpu.items():
                spans[gpu].append(own)
        busy = {gpu: _union(own) for gpu, own in spans.items()}
        samples = busy_samples(busy, began_ms, ended_ms)
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
    return _KINETO.search(source.text_beginning(path, _HEAD_BYTES)) is not None


def _steps_of(process: _Process) -> Steps | None:
    """Return the steps that the training marked (`profiler.step()`), else those that end with the
    optimizer's.
    """
    start, end = process.steps
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    if not len(start):
        ends = np.sort(process.optimizer[1])
        start, end = ends[:-1], ends[1:]
    if not len(start):
        return None
    has_waits = len(process.waits[0]) > 0
    waits = _waits(process.waits, start, end) if has_waits else None
    return Steps(process.rank, "train", _whole(start), _whole(end - start), waits)


def _waits(waits: Spans, start: Floats, end: Floats) -> Whole:
    """Return of each step the time in which the loader was asked for a batch."""
    spans = np.column_stack(waits) - start[0]
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


def _union(several: Sequence[Spans]) -> Spans:
    starts, ends = zip(*several, strict=True)
    return union(np.concatenate(starts), np.concatenate(ends))


def _moved(spans: Spans, by_us: float) -> Spans:
    return spans[0] + by_us, spans[1] + by_us

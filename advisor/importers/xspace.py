"""Profiles of TensorFlow and JAX: XSpace files (`plugins/profile/*/HOST.xplane.pb`).

Field numbers: https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/
xplane.proto. A plane is a GPU, a TPU, or the threads of a host; its lines are streams or threads.
What a profiler derives from a GPU's streams later (lines such as `XLA Ops`) is left out: it is the
same time again. A TPU has no streams: there `XLA Ops` is the only account of its time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np

from advisor.importers import protobuf
from advisor.importers.activity import (
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
from advisor.importers.profiler_recording import ProfilerRecording, training_steps
from advisor.importers.protobuf import Body, DamagedError
from advisor.importers.recording import (
    Floats,
    NotImportableError,
    Part,
    RecordedNode,
    SignOfLife,
)
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts, to_printable_name
from advisor.importers.tally import Tally
from advisor.importers.times import is_possible
from advisor.importers.trace_events import MOST_US
from advisor.store.index import to_ms
from rules.wording import write_count

FORMAT = "TensorFlow or JAX profiler"
_NAME = re.compile(r"(?:.*/)?(?P<host>[^/]*)\.xplane\.pb")
_MOST_FILES = 256
_MOST_BYTES = 256 * 1024 * 1024
_MOST_NAMES = 200_000
_MOST_EVENTS = 2_000_000
"""The most events of a file: 400 MB while they are read."""
_PLANES = 1
_PLANE_NAME, _PLANE_LINES, _PLANE_EVENTS, _PLANE_STATS, _PLANE_VALUES = 2, 3, 4, 5, 6
_LINE_NAME, _LINE_NS, _LINE_EVENTS = 2, 3, 4
_EVENT_ID, _EVENT_OFFSET_PS, _EVENT_LENGTH_PS, _EVENT_STATS = 1, 2, 3, 4
_MAP_KEY, _MAP_VALUE, _METADATA_NAME = 1, 2, 2
_STAT_ID, _STAT_UNSIGNED, _STAT_SIGNED = 1, 3, 4
_DEVICE, _HOST = re.compile(r"/device:(GPU|TPU):(\d{1,3})"), "/host:"
_ENVIRONMENT, _BEGUN = "Task Environment", "profile_start_time"
"""The plane and its statistic that say when times count from: Unix nanoseconds."""
_STREAM, _TPU_OPERATIONS, _TPU_STEPS = "Stream", "XLA Ops", "Steps"
_TPU = "TPU"
_COLLECTIVE = re.compile(
    r"all-(?:reduce|gather|to-all)|reduce-scatter|collective-(?:permute|broadcast)|send|recv"
)
TPU_OPERATIONS = "TPU operations"
_REPLACED, _MOST_REPLACED = b"\xef\xbf\xbd", 10
"""The bytes that programs which take others for text write in their place, and how many of them the
beginning of a good file may have."""
_COPY = re.compile(r"mem(?:cpy|set)", re.IGNORECASE)
_STEP_NUMBER = "step_num"
"""The statistic that marks a step: of TraceContext, or StepTraceAnnotation."""


class _Device(NamedTuple):
    kind: str
    number: int

    @property
    def is_tpu(self) -> bool:
        return self.kind == _TPU


class _Span(NamedTuple):
    """Microseconds since 1970, or of the file's own clock."""

    start_us: float
    end_us: float
    name: str
    is_step: bool


@dataclass
class _Profile:
    """One file: one host."""

    host: str
    busy: dict[_Device, list[_Span]] = field(default_factory=lambda: defaultdict(list))
    steps: list[_Span] = field(default_factory=list)
    tpu_steps: dict[int, list[_Span]] = field(default_factory=dict)
    """The steps that each TPU has a line of; used if the host marked none."""
    first_us: float = np.inf
    last_us: float = 0.0
    base_us: float = 0.0
    """Unix time that the others count from, if they aren't Unix times; 0: unknown."""
    events: int = 0


def recognises(source: Source) -> bool:
    """Return whether a file is named as the profilers name theirs."""
    return any(True for _ in _candidates(source))


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> XSpaceRecording:
    """Open the profiles of all hosts.

    Raises:
        NotImportableError: no operation in them can be read.
    """
    return XSpaceRecording(source, to_ms(stated.imported_at), tally)


class XSpaceRecording(ProfilerRecording):
    """One or several machines. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, imported_ms: int, tally: Tally) -> None:
        super().__init__(tally)
        self._source, self._tally = source, tally
        self._profiles: dict[str, _Profile] = {}
        self._shift_us: dict[str, float] = {}
        for path in _candidates(source):
            profile = self._read(path)
            if profile.last_us and profile.host in self._profiles:
                tally.skip("files", "another profile of the machine: import it alone", 1, path)
            elif profile.last_us:
                self._profiles[profile.host] = profile
        if not self._profiles:
            raise NotImportableError(self._why_empty())
        for host, profile in self._profiles.items():
            self._shift_us[host] = self._dated(profile, imported_ms * 1000.0)
            self._times.shift(host, self._shift_us[host])
        self.nodes = [
            RecordedNode(host, int((each.first_us + self._shift_us[host]) // 1000),
                         gpus=max((d.number for d in each.busy if not d.is_tpu), default=-1) + 1)
            for host, each in sorted(self._profiles.items())
        ]  # fmt: skip

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        profile, shift_us = self._profiles[node.name], self._shift_us[node.name]
        ended_ms = int((profile.last_us + shift_us) // 1000) + 1
        yield SignOfLife(ended_ms)
        for kind in ("GPU", _TPU):
            busy = {
                device.number: union(*(np.array([span[:2] for span in spans]).T + shift_us))
                for device, spans in profile.busy.items()
                if device.kind == kind
            }
            if busy and kind == _TPU:
                self._note_tpus(busy, profile)
            if samples := busy_samples(busy, node.started_ms, ended_ms, kind.lower()):
                self._tally.take("samples", len(samples.times_ms) * len(samples.columns))
                yield samples
        steps = profile.steps or next(iter(profile.tpu_steps.values()), [])
        if steps:
            self._tally.take("steps", len(steps))
            start, end = np.array([span[:2] for span in sorted(steps)]).T
            rank = sorted(self._profiles).index(node.name)
            yield training_steps(rank, start + shift_us, end + shift_us)

    def _note_tpus(self, busy: Mapping[int, tuple[Floats, Floats]], profile: _Profile) -> None:
        length_us = max(profile.last_us - profile.first_us, 1.0)
        mean_us = sum(float((end - start).sum()) for start, end in busy.values()) / len(busy)
        self._tally.note(
            f"{write_count(len(busy), 'TPU')}, busy for {mean_us / length_us:.0%} of the "
            f"{length_us / 1e6:.3g} s that were profiled. There is no advice about TPUs."
        )

    def _why_empty(self) -> str:
        """Return why the files have no operation."""
        heads = (self._source.head(path) for path in _candidates(self._source))
        if any(head.count(_REPLACED) > _MOST_REPLACED for head in heads):
            return (
                "the file was saved as text, so most of its bytes were replaced. Copy it again "
                "from the machine that recorded it, as a binary file"
            )
        return "no operation with a time in its profiles"

    def _dated(self, profile: _Profile, imported_us: float) -> float:
        if is_possible(profile.first_us / 1e6):
            return 0.0
        if is_possible((profile.first_us + profile.base_us) / 1e6):
            return profile.base_us
        self._tally.note(
            "The files have no time of day. The run counts as begun when it was imported."
        )
        return imported_us - profile.first_us

    def _read(self, path: str) -> _Profile:
        found = _NAME.fullmatch(path)
        profile = _Profile(to_printable_name(found["host"] if found else "") or "machine")
        try:
            body = self._source.read(path, _MOST_BYTES)
            for plane in protobuf.children(body, _PLANES):
                self._add_plane(profile, plane, path)
        except (NotImportableError, OSError) as error:
            self._tally.skip("files", f"can't be read: {error}", 1, path)
        except DamagedError:
            self._tally.skip("files", "cut off, or damaged from there on", 1, path)
        return profile

    def _add_plane(self, profile: _Profile, plane: Body, path: str) -> None:
        try:
            name = next(map(protobuf.text, protobuf.children(plane, _PLANE_NAME)), "")
            found = _DEVICE.fullmatch(name)
            device = _Device(found[1], int(found[2])) if found else None
            names, marks = _metadata(plane, _PLANE_EVENTS), _metadata(plane, _PLANE_STATS)
            if name == _ENVIRONMENT:
                profile.base_us = _begun_us(plane, marks)
            if device is None and not name.startswith(_HOST):
                return
            steps = {number for number, said in marks.items() if said == _STEP_NUMBER}
        except DamagedError:
            self._tally.skip("planes", "damaged", 1, path)
            return
        for line in protobuf.children(plane, _PLANE_LINES):
            try:
                self._add_line(profile, line, names, steps, device, path)
            except DamagedError:
                self._tally.skip("lines", "damaged", 1, f"{path}, {name}")

    def _add_line(
        self,
        profile: _Profile,
        line: Body,
        names: Mapping[int, str],
        steps: set[int],
        device: _Device | None,
        path: str,
    ) -> None:
        """Add a stream of a GPU, a line of a TPU, or a thread. Raises DamagedError."""
        head = {number: value for number, value in protobuf.fields(line) if number < _LINE_EVENTS}
        line_name = protobuf.text(head.get(_LINE_NAME, protobuf.EMPTY))
        if device is not None and not _is_account(device, line_name):
            return
        begun_us = protobuf.to_signed(head.get(_LINE_NS, 0)) / 1000
        spans = []
        for event in protobuf.children(line, _LINE_EVENTS):
            if profile.events >= _MOST_EVENTS:
                self._tally.skip("records", f"more than {_MOST_EVENTS:,}", 1, path)
                continue
            span = _span(event, begun_us, names, steps)
            if span is None:
                self._tally.skip("records", "an impossible duration or time", 1, path)
                continue
            profile.events += 1
            spans.append(span)
        if device is not None and line_name == _TPU_STEPS:
            profile.tpu_steps[device.number] = spans
        else:
            self._take(profile, spans, device)

    def _take(self, profile: _Profile, spans: list[_Span], device: _Device | None) -> None:
        if not spans:
            return
        self._tally.take("operations", len(spans))
        profile.first_us = min(profile.first_us, *(span.start_us for span in spans))
        profile.last_us = max(profile.last_us, *(span.end_us for span in spans))
        if device is not None:
            profile.busy[device] += spans
        if device is not None and device.is_tpu:
            for span, own_us, outer in own_times(spans):
                category, name = _tpu_category(span.name), _operation(span.name)
                self._sums.add(category, name, span.end_us - span.start_us, own_us)
                caller = None if outer is None else (_tpu_category(outer.name), _named(outer))
                self._place(profile.host, category, _named(span), caller)
            return
        if device is not None:
            for span in spans:
                self._sums.add(_category(span.name), span.name, span.end_us - span.start_us)
                self._place(profile.host, _category(span.name), span, None)
            return
        for span, own_us, outer in own_times(spans):
            if span.is_step:
                profile.steps.append(span)
            else:
                self._sums.add(CPU, span.name, span.end_us - span.start_us, own_us)
                caller = None if outer is None or outer.is_step else (CPU, outer)
                self._place(profile.host, CPU, span, caller)


def _candidates(source: Source) -> Iterator[str]:
    return islice((path for path in source.sizes if _NAME.fullmatch(path)), _MOST_FILES)


def _metadata(plane: Body, kind: int) -> dict[int, str]:
    """Return number -> name, of the first of them. Raises DamagedError."""
    found = {}
    for entry in islice(protobuf.children(plane, kind), _MOST_NAMES):
        pair = protobuf.by_number(entry)
        value = pair.get(_MAP_VALUE, protobuf.EMPTY)
        if isinstance(value, memoryview):
            name = protobuf.by_number(value).get(_METADATA_NAME, protobuf.EMPTY)
            found[protobuf.to_signed(pair.get(_MAP_KEY, 0))] = protobuf.text(name)[:200]
    return found


def _begun_us(plane: Body, marks: Mapping[int, str]) -> float:
    """Return when the profile began, or 0 if it isn't said. Raises DamagedError."""
    for value in protobuf.children(plane, _PLANE_VALUES):
        stat = protobuf.by_number(value)
        if marks.get(protobuf.to_signed(stat.get(_STAT_ID, 0))) == _BEGUN:
            said = stat.get(_STAT_UNSIGNED, stat.get(_STAT_SIGNED, 0))
            return protobuf.to_signed(said) / 1000
    return 0.0


def _span(event: Body, begun_us: float, names: Mapping[int, str], steps: set[int]) -> _Span | None:
    """Return the operation, or None if it makes no sense. Raises DamagedError."""
    number = offset_ps = length_ps = 0
    is_step = False
    for kind, value in protobuf.fields(event):
        if kind == _EVENT_ID:
            number = protobuf.to_signed(value)
        elif kind == _EVENT_OFFSET_PS:
            offset_ps = protobuf.to_signed(value)
        elif kind == _EVENT_LENGTH_PS:
            length_ps = protobuf.to_signed(value)
        elif kind == _EVENT_STATS and steps and isinstance(value, memoryview):
            stat = protobuf.by_number(value)
            is_step = is_step or protobuf.to_signed(stat.get(_STAT_ID, 0)) in steps
    start_us = begun_us + offset_ps / 1e6
    if not 0 <= length_ps / 1e6 <= MOST_US or not 0 <= start_us < 4e15:
        return None
    name = names.get(number) or "(unknown)"
    return _Span(start_us, start_us + length_ps / 1e6, name, is_step)


def _is_account(device: _Device, line_name: str) -> bool:
    """Return whether the line is what ran on the device, and no other view of it."""
    if device.number >= MOST_GPUS:
        return False
    if device.is_tpu:
        return line_name in (_TPU_OPERATIONS, _TPU_STEPS)
    return line_name.startswith(_STREAM)


def _operation(name: str) -> str:
    """Return a TPU's operation without its number. It is named as its line of the compiled program:
    `fusion` of `%fusion.12 = f32[8] ...`.
    """
    said = name.partition(" = ")[0].removeprefix("%")
    before, _, number = said.rpartition(".")
    while before and number.isdecimal():
        said = before
        before, _, number = said.rpartition(".")
    return said


def _named(span: _Span) -> _Span:
    return span._replace(name=_operation(span.name))


def _tpu_category(name: str) -> str:
    return COMMUNICATION if _COLLECTIVE.match(_operation(name)) else TPU_OPERATIONS


def _category(name: str) -> str:
    if is_collective(name):
        return COMMUNICATION
    return COPIES if _COPY.search(name) else KERNELS

"""Chrome trace events, as many profilers write them: read, repaired, and paired."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from advisor.importers.json_text import parsed
from advisor.importers.source import Source
from advisor.importers.tally import Operator, Tally

MOST_BYTES = 64 * 1024 * 1024
"""Of one file, unpacked: about 600 MB while it is read."""
MOST_OPERATORS = 20_000
MOST_US = 28 * 86_400 * 10**6
"""No operation of a job takes longer than a job: 28 days."""
_MOST_TS = 10**17
_DEEPEST = 1_000
"""Operations of one phase that may be open at once."""
_REPAIRS, _REPAIRED_BYTES = 20, 256 * 1024 * 1024
"""Tries to find the end of the last whole event, and what they may parse together."""
OTHERS = "(others)"


class Span(NamedTuple):
    """One operation; times in microseconds of the file's own clock."""

    pid: int
    name: str
    start_us: float
    duration_us: float
    args: dict[str, Any]


def events_of(source: Source, path: str, tally: Tally) -> list[Any]:
    """The events of a file, with what is broken left out.

    Raises:
        NotImportableError: too large.
    """
    body = source.read(path, MOST_BYTES)
    try:
        document = parsed(body)
    except ValueError:
        return _repaired(body, path, tally)
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        tally.skip("files", "no trace events in it", 1, path)
        return []
    return events


def _repaired(body: bytes, path: str, tally: Tally) -> list[Any]:
    """What a truncated or damaged file still has: writers put an event on a line."""
    lines = body.splitlines()
    if len(lines) < 3 or body.lstrip().startswith(b"{"):
        return _cut(body, path, tally)
    events = []
    for number, line in enumerate(lines, start=1):
        text = line.strip().rstrip(b",")
        if text in (b"", b"[", b"]"):
            continue
        try:
            event = parsed(text)
        except ValueError:
            event = None
        if isinstance(event, dict):
            events.append(event)
        else:
            place = f"{path}, line {number}"
            tally.skip("records", "not a whole record of JSON", 1, place)
    return events


def _cut(body: bytes, path: str, tally: Tally) -> list[Any]:
    """A list on one line, or an object, up to its last whole event."""
    end = len(body)
    for _ in range(min(_REPAIRS, _REPAIRED_BYTES // (2 * end + 1))):
        end = body.rfind(b"}", 0, end)
        if end < 0:
            break
        for closing in (b"]", b"]}"):
            try:
                document = parsed(body[: end + 1] + closing)
            except ValueError:
                continue
            tally.skip("records", "not a whole record of JSON", 1, f"{path}, at its end")
            events = document.get("traceEvents") if isinstance(document, dict) else document
            return events if isinstance(events, list) else []
    tally.skip("files", "not JSON", 1, path)
    return []


@dataclass
class Trace:
    """The content of a file.

    Attributes:
        base_us: Unix microseconds that the times count from, as its last header says; 0: unknown.
        phases: number in `Span.pid` -> name.
    """

    base_us: int = 0
    phases: dict[int, str] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    moments: int = 0
    """Instants and counters."""


def trace_of(events: Iterable[Any], path: str, tally: Tally) -> Trace:
    """Sort the events. Those that make no sense are counted and left out."""
    trace = Trace()
    opened: dict[int, list[tuple[str, float, dict[str, Any]]]] = defaultdict(list)
    spans = trace.spans
    broken = absurd = unpaired = 0
    for event in events:
        try:
            kind, pid = event["ph"], event.get("pid", 0)
            if kind == "X":  # nearly all of them
                start, duration, args = event["ts"], event["dur"], event.get("args")
                if not (0 <= duration <= MOST_US and -_MOST_TS < start < _MOST_TS):
                    absurd += 1
                    continue
                args = args if isinstance(args, dict) else {}
                spans.append(Span(int(pid), str(event["name"]), start, duration, args))
            elif kind == "M":
                _header(trace, event, int(pid))
            elif kind == "B":
                if len(opened[int(pid)]) < _DEEPEST:
                    started = str(event.get("name", "")), event["ts"] + 0.0, _args(event)
                    opened[int(pid)].append(started)
                else:
                    unpaired += 1
            elif kind == "E":
                if not opened[int(pid)]:
                    unpaired += 1
                    continue
                name, start, args = opened[int(pid)].pop()
                duration = event["ts"] - start
                if not 0 <= duration <= MOST_US:
                    absurd += 1
                    continue
                spans.append(Span(int(pid), name, start, duration, args))
            elif isinstance(kind, str):
                trace.moments += 1
            else:
                broken += 1
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            broken += event != {}  # TensorFlow ends its lists with an empty one
    unpaired += sum(map(len, opened.values()))
    tally.skip("records", "not a trace event", broken, path)
    tally.skip("records", "an impossible duration or time", absurd, path)
    why = "a beginning without its end, or an end without its beginning"
    tally.skip("records", why, unpaired, path)
    return trace


def _args(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _header(trace: Trace, event: dict[str, Any], pid: int) -> None:
    args = _args(event)
    if event.get("name") != "process_name":
        return
    base = args.get("start_time_since_epoch_in_micros")
    if isinstance(base, int | float) and 10**15 < base < 10**17:
        trace.base_us = int(base)
    if isinstance(args.get("name"), str):
        trace.phases[pid] = args["name"]


class Operators:
    """Sums of operations by category and name."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], list[float]] = {}

    def add(
        self, category: str, name: str, duration_us: float, own_us: float | None = None
    ) -> None:
        """`own_us`: without what it called; None: not known, all of its category are alike."""
        self.add_all(category, name, 1, duration_us, duration_us, own_us)

    def add_all(
        self,
        category: str,
        name: str,
        count: int,
        total_us: float,
        longest_us: float,
        own_us: float | None = None,
    ) -> None:
        """Several of one name."""
        key = category, name
        sums = self._sums.get(key)
        if sums is None:
            if len(self._sums) >= MOST_OPERATORS:
                key = category, OTHERS
            sums = self._sums.setdefault(key, [0, 0.0, 0.0, math.nan if own_us is None else 0.0])
        sums[0] += count
        sums[1] += total_us
        sums[3] += math.nan if own_us is None else own_us
        if longest_us > sums[2]:
            sums[2] = longest_us

    def most_expensive(self, each: int = 50) -> list[Operator]:
        """So many of each category, the longest first."""
        by_category: dict[str, list[Operator]] = defaultdict(list)
        for (category, name), (count, total, longest, own) in self._sums.items():
            own_us = None if math.isnan(own) else round(own)
            by_category[category].append(
                Operator(category, name[:200], int(count), round(total), round(longest), own_us)
            )
        return [
            operator
            for category in sorted(by_category)
            for operator in sorted(by_category[category], key=lambda o: -o.cost_us)[:each]
        ]

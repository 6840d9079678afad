"""Chrome trace events, as many profilers write them: read, repaired, and paired."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from advisor.importers.source import Source
from advisor.importers.tally import Operator, Tally
from advisor.importers.trace_text import EventReader

MOST_EVENTS = 500_000
"""The most events of one file whose events are kept until it is read: about 600 MB."""
MOST_OPERATORS = 20_000
MOST_US = 28 * 86_400 * 10**6
"""No operation of a job takes longer than a job: 28 days."""
_MOST_TS = 10**17
_DEEPEST = 1_000
"""Operations of one phase that may be open at once."""
OTHERS = "(others)"


class Span(NamedTuple):
    """One operation; times in microseconds of the file's own clock."""

    pid: int
    name: str
    start_us: float
    duration_us: float
    args: dict[str, Any]


def events_of(source: Source, path: str, tally: Tally) -> Iterator[dict[str, Any]]:
    """Yield the events of a file; what is broken is counted and left out.

    Raises:
        OSError
    """
    reader = EventReader(source.pieces(path), path, tally, _objects, lambda event: event)
    left = MOST_EVENTS
    for events in reader.batches():
        yield from events[:left]
        why = f"more than {MOST_EVENTS:,} in one file"
        tally.skip("records", why, len(events) - left, path)
        left = max(left - len(events), 0)


def _objects(body: bytes) -> list[dict[str, Any]]:
    """Parse a list of objects. Raises ValueError for anything else."""
    events: list[dict[str, Any]] = json.loads(body)
    if not all(isinstance(event, dict) for event in events):
        raise ValueError("not objects alone")
    return events


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
        """Add one operation. `own_us`: without what it called; None: unknown, all of its category
        are alike.
        """
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
        """Add several operations of one name."""
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
        """Return so many of each category, the longest first."""
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

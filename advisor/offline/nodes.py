"""The nodes and the state of a run, from its declarations and segments only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from uuid import UUID

from trimtab.wire import FIRST_PIECE, NodeFacts

from advisor import machine
from advisor.costing.billing import AS_HELD, Billing
from advisor.costing.cost import Interval
from advisor.offline.reading import StoredRun, StoredSegment
from advisor.store.index import NodeHistory, SegmentRef, from_ns
from advisor.store.objects import ObjectReader
from rules.node_names import distinct_names

FINISHED, FAILED, STOPPED, RUNNING = "finished", "failed", "stopped", "running"


@dataclass(frozen=True)
class StoredSession:
    """One agent process on a node. Its segments are in order."""

    segments: list[StoredSegment]

    @property
    def started_at(self) -> datetime:
        return from_ns(self.segments[0].segment.clock.started_at_ns)

    @property
    def interval(self) -> Interval:
        """Return the time in which it held its node."""
        last_ms = max(s.segment.start_ms + s.segment.duration_ms for s in self.segments)
        end = self.end
        length_ms = last_ms if end is None else end[0]
        return self.started_at, self.started_at + timedelta(milliseconds=length_ms)

    @property
    def end(self) -> tuple[int, str] | None:
        """Return when it ended, in ms since its start, and its final state; None if the end wasn't
        seen.
        """
        for stored in self.segments:
            for event in stored.segment.events:
                if event.kind == "session_end":
                    state = str(event.data.get("state"))
                    known = state if state in (FINISHED, FAILED, STOPPED) else FAILED
                    return stored.segment.start_ms + event.time_ms, known
        return None

    @property
    def missing_segments(self) -> int:
        """Return the number of missing segments, if the session has ended."""
        numbers = {s.segment.seq for s in self.segments if s.segment.seq < FIRST_PIECE}
        return 0 if self.end is None else max(numbers, default=-1) + 1 - len(numbers)

    def refs(self) -> Iterable[tuple[SegmentRef, bytes]]:
        for stored in self.segments:
            segment = stored.segment
            session = str(segment.clock.session_id)
            key = f"{session}/{segment.seq}"
            place = (self.started_at, segment.start_ms, segment.duration_ms)
            yield SegmentRef(key, session, segment.seq, *place), stored.body


@dataclass(frozen=True)
class ImportedSession:
    """A node of a run that something else recorded. It has ended."""

    interval: Interval
    state: str
    missing_segments: int = 0

    @property
    def end(self) -> tuple[int, str]:
        start, end = self.interval
        return (end - start) // timedelta(milliseconds=1), self.state


@dataclass(frozen=True)
class Node:
    """One machine in an attempt, with its hardware and what is stored of it."""

    facts: NodeFacts
    history: NodeHistory
    attempt: int
    sessions: tuple[StoredSession | ImportedSession, ...]
    """Sessions in the order of their starts."""
    billing: Billing = AS_HELD

    @property
    def name(self) -> str:
        return self.facts.hostname or self.history.key


class Bodies:
    """The segments' bodies by key, as the store gives them."""

    def __init__(self, bodies: dict[str, bytes]) -> None:
        self._bodies = bodies

    def get(self, key: str) -> bytes:
        return self._bodies[key]


@dataclass(frozen=True)
class Timeline:
    """A run's nodes, time and final state."""

    nodes: tuple[Node, ...]
    bodies: ObjectReader
    finest_ms: int
    """The finest resolution of its samples."""

    @classmethod
    def from_run(cls, run: StoredRun, stated: NodeFacts) -> Timeline:
        """Return the nodes in order of appearance. `stated` are a person's values for each of
        them.
        """
        bodies: dict[str, bytes] = {}
        nodes = []
        for number, (place, sessions) in enumerate(_sessions(run).items(), start=1):
            refs = list(chain.from_iterable(session.refs() for session in sessions))
            bodies |= {ref.key: body for ref, body in refs}
            facts = _facts(run, *place, stated)
            history = NodeHistory(
                key=f"node-{number}",
                hardware=machine.hardware(facts),
                intervals=tuple(session.interval for session in sessions),
                segments=tuple(ref for ref, _ in refs),
                chunks=(),
            )
            nodes.append(Node(facts, history, place[0], tuple(sessions)))
        finest_ms = min(stored.segment.resolution_ms for stored in run.segments)
        return cls(tuple(nodes), Bodies(bodies), finest_ms)

    @property
    def node_names(self) -> dict[str, str]:
        """Return the nodes' names by key."""
        hosts = {n.history.key: (n.facts.hostname, n.facts.machine_id) for n in self.nodes}
        return distinct_names(hosts)

    @property
    def started_at(self) -> datetime:
        return min(start for node in self.nodes for start, _ in node.history.intervals)

    @property
    def ended_at(self) -> datetime:
        return max(end for node in self.nodes for _, end in node.history.intervals)

    @property
    def duration_seconds(self) -> float:
        return (self.ended_at - self.started_at).total_seconds()

    @property
    def missing_segments(self) -> int:
        return sum(session.missing_segments for node in self.nodes for session in node.sessions)

    @property
    def is_final(self) -> bool:
        return self.state != RUNNING and not self.missing_segments

    @property
    def state(self) -> str:
        """Return the state, from the last session of each node of the last attempt."""
        last = max(node.attempt for node in self.nodes)
        ends = [node.sessions[-1].end for node in self.nodes if node.attempt == last]
        states = {RUNNING if end is None else end[1] for end in ends}
        return next(state for state in (RUNNING, FAILED, STOPPED, FINISHED) if state in states)


def _sessions(run: StoredRun) -> dict[tuple[int, str], list[StoredSession]]:
    """Return (attempt, machine) -> its sessions in the order of their starts."""
    by_session: dict[UUID, list[StoredSegment]] = defaultdict(list)
    for stored in sorted(run.segments, key=lambda s: (s.segment.start_ms, s.segment.seq)):
        by_session[stored.segment.clock.session_id].append(stored)
    nodes: dict[tuple[int, str], list[StoredSession]] = defaultdict(list)
    for session in sorted(
        map(StoredSession, by_session.values()), key=lambda each: each.started_at
    ):
        first = session.segments[0].segment
        nodes[first.attempt, first.machine_id].append(session)
    return nodes


def _facts(run: StoredRun, attempt: int, machine_id: str, stated: NodeFacts) -> NodeFacts:
    """Return the declaration of a node. Later declarations and a person's values override earlier
    ones.
    """
    declared = [
        each.node
        for each in run.declarations
        if (each.attempt, each.node.machine_id) == (attempt, machine_id)
    ]
    return _merged(NodeFacts(machine_id), [*declared, stated])


def _merged(facts: NodeFacts, later: Sequence[NodeFacts]) -> NodeFacts:
    for each in later:
        known = {name: getattr(each, name) for name, value in asdict(each).items() if value}
        facts = replace(facts, **known)
    return facts

"""A simulated run as an agent would send it: one declaration per node, and its segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np
from numpy.typing import NDArray
from trimtab.wire import Block, Declaration, Event, NodeFacts, Segment, SessionClock, StepBlock

AGENT_VERSION = "simulated"
TAGS = {"data": "simulated"}
"""The tags on every simulated run."""
GIB = 2**30
_NAMESPACE = uuid5(NAMESPACE_URL, "urn:trimtab:sample-data")
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

Series = NDArray[Any]


def sample_id(*words: object) -> UUID:
    """Return an id that is the same for the same names, so that loading twice is a replay."""
    return uuid5(_NAMESPACE, "/".join(str(word) for word in words))


@dataclass(frozen=True)
class SimulatedSteps:
    """The steps of one rank in one phase; us since the start of the session."""

    rank: int
    phase: str
    start_us: NDArray[np.int64]
    duration_us: NDArray[np.int64]
    data_wait_us: NDArray[np.int64]
    samples: int


@dataclass(frozen=True)
class SimulatedEvent:
    """An event, `time_ms` since the start of the session."""

    time_ms: int
    kind: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulatedNode:
    """One machine of a run; `series[name][i]` was read at `i * resolution_ms`."""

    facts: NodeFacts
    series: dict[str, Series]
    steps: tuple[SimulatedSteps, ...] = ()
    events: tuple[SimulatedEvent, ...] = ()


@dataclass(frozen=True)
class SimulatedEnding:
    """Ending of the processes. `said` are the last lines of standard error that the agent kept."""

    state: str = "finished"
    exit_code: int = 0
    said: tuple[str, ...] = ()

    def happenings(self, time_ms: int, final_seq: int) -> list[SimulatedEvent]:
        facts = {"state": self.state, "exit_code": self.exit_code}
        lines = enumerate(self.said)
        return [
            *(SimulatedEvent(time_ms, "stderr", {"number": n, "text": line}) for n, line in lines),
            SimulatedEvent(time_ms, "process_exit", {"exit_code": self.exit_code}),
            SimulatedEvent(time_ms, "session_end", {**facts, "final_seq": final_seq}),
        ]


FINISHED = SimulatedEnding()


@dataclass(frozen=True)
class SimulatedRun:
    run_id: UUID
    job: str
    started_at: datetime
    duration_ms: int
    resolution_ms: int
    segment_ms: int
    nodes: tuple[SimulatedNode, ...]
    owner: str
    parameters: dict[str, Any]
    workload: dict[str, str]
    command: list[str]
    git_commit: str
    team: str = ""
    ending: SimulatedEnding = FINISHED
    allow_stop: bool = False

    def declarations(self) -> Iterator[Declaration]:
        for node in self.nodes:
            yield Declaration(
                run_id=self.run_id,
                job=self.job,
                attempt=0,
                session_id=self._session_id(node),
                node=node.facts,
                owner=self.owner,
                tags=TAGS | ({"team": self.team} if self.team else {}),
                parameters=self.parameters,
                command=self.command,
                git_commit=self.git_commit,
                git_branch="main",
                agent_version=AGENT_VERSION,
                workload=self.workload,
                allow_stop=self.allow_stop,
            )

    def segments(self) -> Iterator[Segment]:
        """Yield the segments node by node, in order; the last of each ends the session to the
        millisecond.
        """
        for node in self.nodes:
            for seq in range(self.segment_count):
                yield self.segment(node, seq)

    @property
    def segment_count(self) -> int:
        """Return the number of segments of each node."""
        return -(-self.duration_ms // self.segment_ms)

    def segment(
        self, node: SimulatedNode, seq: int, more: Sequence[SimulatedEvent] = (), ends: bool = False
    ) -> Segment:
        """Return one upload of a node.

        Args:
            more: happened in it, beside what the node does by itself.
            ends: the session ends with it, as the last one always does.
        """
        start_ms = seq * self.segment_ms
        end_ms = min(start_ms + self.segment_ms, self.duration_ms)
        steps = (_cut_steps(s, start_ms * 1000, end_ms * 1000) for s in node.steps)
        happenings = [e for e in node.events if start_ms <= e.time_ms < end_ms] + list(more)
        if seq == 0:
            happenings.insert(0, SimulatedEvent(0, "process_start"))
        if ends or seq == self.segment_count - 1:
            happenings += self.ending.happenings(end_ms, seq)
        return Segment(
            run_id=self.run_id,
            job=self.job,
            attempt=0,
            machine_id=node.facts.machine_id,
            clock=self._clock(node),
            seq=seq,
            start_ms=start_ms,
            duration_ms=end_ms - start_ms,
            resolution_ms=self.resolution_ms,
            blocks=[_cut_series(node.series, self.resolution_ms, start_ms, end_ms)],
            steps=[block for block in steps if block.start_us],
            events=[Event(e.time_ms - start_ms, e.kind, dict(e.data)) for e in happenings],
        )

    def _session_id(self, node: SimulatedNode) -> UUID:
        return sample_id(self.run_id, node.facts.machine_id)

    def _clock(self, node: SimulatedNode) -> SessionClock:
        return SessionClock(
            session_id=self._session_id(node),
            boot_id=str(sample_id("boot", self.run_id, node.facts.machine_id)),
            started_at_ns=(self.started_at - _EPOCH) // timedelta(microseconds=1) * 1000,
            started_mono_ns=120 * 10**9,
        )


def _cut_series(series: dict[str, Series], resolution_ms: int, start_ms: int, end_ms: int) -> Block:
    ticks = range(-(-start_ms // resolution_ms), -(-end_ms // resolution_ms))
    columns = {name: values[ticks.start : ticks.stop].tolist() for name, values in series.items()}
    return Block([tick * resolution_ms - start_ms for tick in ticks], columns)


def _cut_steps(steps: SimulatedSteps, start_us: int, end_us: int) -> StepBlock:
    """Return the steps that ended in the segment."""
    ends = steps.start_us + steps.duration_us
    inside = (ends > start_us) & (ends <= end_us)
    return StepBlock(
        rank=steps.rank,
        phase=steps.phase,
        start_us=(steps.start_us[inside] - start_us).tolist(),
        duration_us=steps.duration_us[inside].tolist(),
        data_wait_us=steps.data_wait_us[inside].tolist(),
        samples=[steps.samples] * int(inside.sum()),
    )

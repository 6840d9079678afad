"""Machines of trainings, which upload what an agent would."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from django.test import Client
from trimtab.wire import (
    Block,
    Declaration,
    Event,
    Gpu,
    NodeFacts,
    Segment,
    SessionClock,
    StepBlock,
    encode_declaration,
    encode_segment,
)

from webapp.analysis.models import Analysis
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Run

MINUTE = 60
BEGAN_NS = 1_780_000_000 * 10**9
TICK_SECONDS = 10


@dataclass
class Machine:
    """One session of a training on a machine with one GPU, told in seconds since `began_ns`."""

    client: Client
    token: str
    starts: int = 0
    run_id: UUID = field(default_factory=uuid4)
    job: str = "llm"
    began_ns: int = BEGAN_NS
    attempt: int = 0
    machine_id: str = "machine-1"
    instance_type: str = "g4dn.xlarge"
    purchase_option: str = "on_demand"
    ending: dict[str, Any] = field(default_factory=dict)
    """The facts that are told of its end, beside its state."""
    declared: dict[str, Any] = field(default_factory=dict)
    session_id: UUID = field(default_factory=uuid4)
    tokens: int | None = None
    """The tokens of each step."""
    steps: list[tuple[float, float, float]] = field(default_factory=list)
    """Start, length and wait for data."""
    events: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)

    def works(self, begin: float, end: float, each: float = 10, wait: float = 0) -> None:
        count = round((end - begin) / each)
        self.steps += [(begin + n * each, each, wait) for n in range(count)]

    def tells(self, at: float, kind: str, **data: Any) -> None:
        self.events.append((at, kind, {"rank": 0, **data}))

    def ends(self, at: float, state: str = "finished") -> Run:
        """Upload everything, as one segment, and analyse it. Without a `state` it goes silent."""
        self.declares()
        self._put(f"/segments/{self.session_id}/0", encode_segment(self._segment(at, state)))
        evaluate(str(self.run_id))
        return Run.objects.get(pk=self.run_id)

    def declares(self) -> None:
        self._put("", encode_declaration(self._declaration()))

    def saves(self, at: float, name: str) -> None:
        """Save a checkpoint whose content this name stands for."""
        self.tells(at, "checkpoint_saved", fingerprint=fingerprint(name), bytes=10**9)

    def loads(self, at: float, name: str, step: int | None) -> None:
        self.tells(at, "restore", seconds=MINUTE, bytes=10**9, step=step)
        self.tells(at, "checkpoint_loaded", fingerprint=fingerprint(name), bytes=10**9)

    def _declaration(self) -> Declaration:
        node = NodeFacts(
            machine_id=self.machine_id,
            provider="aws",
            service="ec2",
            region="us-east-1",
            instance_type=self.instance_type,
            purchase_option=self.purchase_option,
            vcpus=4,
            effective_cpus=4.0,
            gpus=[Gpu("T4", 16 * 2**30)],
        )
        return Declaration(
            self.run_id, self.job, self.attempt, self.session_id, node, **self.declared
        )

    def _segment(self, ends: float, state: str) -> Segment:
        length = round(ends - self.starts)
        times = range(0, length, TICK_SECONDS)
        busy = [self._busy_pct(self.starts + at, TICK_SECONDS) for at in times]
        block = Block([at * 1000 for at in times], {"gpu0.busy_pct": busy})  # type: ignore[dict-item]
        said = {"state": state, "exit_code": 0 if state == "finished" else 1, "final_seq": 0}
        told = [(ends, "session_end", said | self.ending)] if state else []
        events = [*self.events, *told]
        ordered = sorted(events, key=lambda event: event[0])
        began = self.began_ns + self.starts * 10**9
        return Segment(
            self.run_id,
            self.job,
            self.attempt,
            self.machine_id,
            SessionClock(self.session_id, "boot", began, 5 * 10**9),
            seq=0,
            start_ms=0,
            duration_ms=length * 1000,
            resolution_ms=TICK_SECONDS * 1000,
            blocks=[block],
            steps=[self._steps()] if self.steps else [],
            events=[Event(round((at - self.starts) * 1000), k, d) for at, k, d in ordered],
        )

    def _busy_pct(self, at: float, width: float) -> float:
        """Return how busy the GPU is: it works in steps, but not while they wait."""
        works = sum(
            max(0.0, min(at + width, start + length) - max(at, start + wait))
            for start, length, wait in self.steps
        )
        return 100 * works / width

    def _steps(self) -> StepBlock:
        columns = ([round(x * 1e6) for x in column] for column in zip(*self.steps, strict=True))
        starts, lengths, waits = columns
        starts = [start - self.starts * 10**6 for start in starts]
        count = len(starts)
        tokens = [] if self.tokens is None else [self.tokens] * count
        return StepBlock(0, "train", starts, lengths, list(waits), [32] * count, tokens)  # type: ignore[arg-type]

    def _put(self, place: str, body: bytes) -> None:
        kind = "application/vnd.trimtab.segment+json"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Encoding": "gzip"}
        path = f"/api/v1/runs/{self.run_id}{place}"
        answer = self.client.put(path, body, content_type=kind, headers=headers)
        assert answer.status_code == 200, answer.content
        assert not answer.json()["refused"]


def fingerprint(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=8).hexdigest()


def two_runs(machine: Any, **declared: Any) -> tuple[Machine, Machine]:
    """Make two runs. The second continues after 240 of 480 steps, 20 min after the end of the
    first. The loss of 0.3 is reached in steps that are lost.
    """
    first = machine(declared=declared)
    first.works(0, 80 * MINUTE)
    first.tells(10, "global_step", step=1)
    for at, value in ((40, 0.5), (70, 0.3)):
        first.tells(at * MINUTE, "metric", name="loss", value=value)
    second = machine(starts=100 * MINUTE, machine_id="machine-2", declared=declared)
    second.tells(105 * MINUTE, "restore", seconds=5 * MINUTE, bytes=None, step=240)
    second.works(105 * MINUTE, 155 * MINUTE)
    for at, value in ((130, 0.4), (150, 0.2)):
        second.tells(at * MINUTE, "metric", name="loss", value=value)
    return first, second


def analyse_what_is_due() -> None:
    """Analyse until nothing is due: a run that is counted again may join or leave others."""
    for _ in range(4):
        for run_id in due():
            evaluate(str(run_id))
    assert not due()


def due() -> list[UUID]:
    return [a.run_id for a in Analysis.objects.all() if a.done < a.wanted]

"""Runs with real segments in a real store, uploaded as by an agent."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

from trimtab.wire import (
    Block,
    Declaration,
    Event,
    Gpu,
    NodeFacts,
    Segment,
    SessionClock,
    StepBlock,
    encode_segment,
)

from webapp.accounts.models import Workspace
from webapp.ingest import declarations
from webapp.ingest.upload import Upload
from webapp.ingest.write import write_segment
from webapp.runs.models import Run

SEGMENT_SECONDS = 10
SEGMENT_MS = SEGMENT_SECONDS * 1000
TICK_MS = 500
STEPS_A_SECOND = 5


def uploaded_run(of: Workspace, job: str = "vision/train.py", **shape: Any) -> Run:
    """Upload a training whole; `shape` as the fields of `Training`."""
    return upload(of, Training(job, **shape))


def uploaded_at_once(of: Workspace, *jobs: str) -> list[Run]:
    """Upload a training of each job, all held to the nanosecond by the one machine."""
    trainings = [Training(job) for job in jobs]
    for training in trainings:
        began_ns = trainings[0].clock.started_at_ns
        training.clock = replace(training.clock, started_at_ns=began_ns)
    return [upload(of, training) for training in trainings]


def upload(of: Workspace, training: Training, upto: int | None = None) -> Run:
    """Upload the first `upto` of its segments, once more where they are known already."""
    declarations.store_declaration(of, training.declaration())
    for segment in training.segments()[:upto]:
        write_segment(Upload(of, segment, encode_segment(segment), time.time_ns()))
    return Run.objects.get(pk=training.run_id)


@dataclass
class Training:
    """Waits for its data in 62 % of each step. `gap`: the seqs that never arrive."""

    job: str
    minutes: float = 1
    ended: bool = True
    gap: tuple[int, ...] = ()
    gpus: int = 0
    vcpus: int = 2
    """The cores of a machine without GPUs. About one of them is busy, however many there are."""
    machine: str = "machine-1"
    has_memory_bytes: bool = True
    """True if the memory is known in bytes, else as a percentage only."""
    run_id: UUID = field(default_factory=uuid4)

    def __post_init__(self) -> None:
        self.count = round(self.minutes * 60 / SEGMENT_SECONDS)
        began_ns = time.time_ns() - self.count * SEGMENT_SECONDS * 10**9
        self.clock = SessionClock(uuid4(), "boot", began_ns, 1)

    def declaration(self) -> Declaration:
        gpus = [Gpu("NVIDIA A10G", 24 * 2**30) for _ in range(self.gpus)]
        facts = NodeFacts(
            machine_id=self.machine,
            hostname="trainer-1",
            provider="aws",
            service="ec2",
            region="us-east-1",
            instance_type="g5.12xlarge" if gpus else "c5.large",
            vcpus=48 if gpus else self.vcpus,
            effective_cpus=48 if gpus else self.vcpus,
            memory_bytes=(192 if gpus else 2 * self.vcpus) * 2**30,
            cpu_model="Intel Xeon Platinum 8124M",
            gpus=gpus,
        )
        return Declaration(
            run_id=self.run_id,
            job=self.job,
            attempt=0,
            session_id=self.clock.session_id,
            node=facts,
            owner="ada",
            tags={"team": "vision"},
            parameters={"batch_size": 64, "workers": 0},
            command=["python", "train.py", "--epochs", "30"],
            git_commit="4f2c9d1e8a7b6c5d4e3f",
            git_branch="main",
            workload={"entry_point": "train.py"},
        )

    def segments(self) -> list[Segment]:
        return [self._segment(seq) for seq in range(self.count) if seq not in self.gap]

    def _segment(self, seq: int) -> Segment:
        is_last = self.ended and seq == self.count - 1
        end = {"state": "finished", "exit_code": 0, "final_seq": seq}
        return Segment(
            run_id=self.run_id,
            job=self.job,
            attempt=0,
            machine_id=self.machine,
            clock=self.clock,
            seq=seq,
            start_ms=seq * SEGMENT_MS,
            duration_ms=SEGMENT_MS,
            resolution_ms=TICK_MS,
            blocks=[self._block(seq)],
            steps=[_steps()],
            events=[Event(SEGMENT_MS, "session_end", end)] if is_last else [],
        )

    def _block(self, seq: int) -> Block:
        times = list(range(0, SEGMENT_MS, TICK_MS))
        ticks = [seq * len(times) + i for i in range(len(times))]
        columns: dict[str, list[Any]] = {
            "host.cpu_busy_pct": [_cores_pct(t) * 2 / self.vcpus for t in ticks],
            "disk.read_bytes_total": [3_000_000 * t for t in ticks],
            "disk.written_bytes_total": [200_000 * t for t in ticks],
            "net.received_bytes_total": [90_000 * t for t in ticks],
            "net.sent_bytes_total": [20_000 * t for t in ticks],
        }
        if self.has_memory_bytes:
            columns["host.memory_used_bytes"] = [int((1.0 + t / 4000) * 2**30) for t in ticks]
        else:
            columns["host.memory_used_pct"] = [25.0] * len(ticks)
        for gpu in range(self.gpus):
            busy = [min(100.0, max(0.0, 35 + 30 * math.sin(t / 3 + gpu))) for t in ticks]
            columns[f"gpu{gpu}.busy_pct"] = busy
            columns[f"gpu{gpu}.memory_used_bytes"] = [9 * 2**30] * len(ticks)
        return Block(times, columns)


def _cores_pct(tick: int) -> float:
    """Return the percentage of two cores."""
    return 48 + 9 * math.sin(tick / 17) + 4 * math.sin(tick * 1.7)


def _steps() -> StepBlock:
    count = STEPS_A_SECOND * SEGMENT_SECONDS
    each_us = 1_000_000 // STEPS_A_SECOND
    return StepBlock(
        rank=0,
        phase="train",
        start_us=[i * each_us for i in range(count)],
        duration_us=[each_us - 1000 + 300 * (i % 7) for i in range(count)],
        data_wait_us=[int(each_us * 0.62)] * count,
        samples=[64] * count,
    )

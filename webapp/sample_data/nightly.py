"""A job of a dozen nightly runs that got slower: from the tenth on, an epoch takes 18 % longer.

The model's work is the same in all runs, within 2 %. The wait for data grows after a commit that
slowed the input pipeline down.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

import numpy as np
from trimtab.wire import Gpu, NodeFacts

from webapp.sample_data import shapes
from webapp.sample_data.simulation import (
    GIB,
    Happening,
    Series,
    SimulatedNode,
    SimulatedRun,
    Steps,
    sample_id,
)

JOB = "product-photos/train.py"
DAYS_AGO = (27, 25, 22, 20, 18, 15, 13, 11, 8, 6, 4, 1)
FIRST_SLOW_RUN = 10
SLOWDOWN = 1.18
"""Epoch time from the tenth run on, relative to the time before."""
VARIATION = (0.3, -1.1, 0.8, -0.4, 1.4, -0.9, 0.1, 1.0, -1.3, 0.4, -0.6, 0.7)
"""Deviation of each run's compute time, in standard deviations of 2 %."""
EPOCHS, STEPS_PER_EPOCH, BATCH = 8, 250, 64
RESOLUTION_MS = 5_000
VCPUS, MEMORY_GIB = 4, 16
_COMPUTE_SECONDS, _WAIT_SECONDS = 0.752, 0.048
_STARTUP_SECONDS, _EVALUATION_SECONDS, _UPLOAD_SECONDS = 60.0, 10.0, 12.0


@dataclass(frozen=True)
class Plan:
    """One run's times in seconds, before noise."""

    number: int
    compute_seconds: float
    wait_seconds: float

    @property
    def step_seconds(self) -> float:
        return self.compute_seconds + self.wait_seconds

    @property
    def epoch_seconds(self) -> float:
        return STEPS_PER_EPOCH * self.step_seconds + _EVALUATION_SECONDS

    @property
    def duration_ms(self) -> int:
        seconds = _STARTUP_SECONDS + EPOCHS * self.epoch_seconds + _UPLOAD_SECONDS
        return round(seconds * 1000)

    @property
    def ticks(self) -> int:
        return -(-self.duration_ms // RESOLUTION_MS)


def plan(number: int) -> Plan:
    """The run of that number, from 1."""
    factor = 1 + 0.02 * VARIATION[number - 1]
    calm = Plan(number, factor * _COMPUTE_SECONDS, factor * _WAIT_SECONDS)
    if number < FIRST_SLOW_RUN:
        return calm
    more = (SLOWDOWN - 1) * calm.epoch_seconds / STEPS_PER_EPOCH
    return Plan(number, calm.compute_seconds, calm.wait_seconds + more)


def nightly_runs(now: datetime, workspace: str) -> list[SimulatedRun]:
    """All twelve runs; the last one in the night before `now` (UTC)."""
    today = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    return [_run(plan(n), today, workspace) for n in range(1, len(DAYS_AGO) + 1)]


def _run(of: Plan, today: datetime, workspace: str) -> SimulatedRun:
    random = np.random.default_rng(100 + of.number)
    started_at = today - timedelta(days=DAYS_AGO[of.number - 1]) + timedelta(hours=2, minutes=10)
    commit = "slow" if of.number >= FIRST_SLOW_RUN else "calm"
    return SimulatedRun(
        run_id=sample_id(workspace, JOB, today.date(), of.number),
        job=JOB,
        started_at=started_at,
        duration_ms=of.duration_ms,
        resolution_ms=RESOLUTION_MS,
        segment_ms=600_000,
        nodes=(_node(of, workspace, random),),
        owner="vision-team",
        parameters={"epochs": EPOCHS, "batch_size": BATCH, "num_workers": 2, "lr": 0.001},
        workload={"entry_point": "train.py", "dataset": "product-photos", "model": "resnet50"},
        command=["python", "train.py", "--epochs", str(EPOCHS), "--batch-size", str(BATCH)],
        git_commit=sample_id("commit", JOB, commit).hex,
    )


def _node(of: Plan, workspace: str, random: np.random.Generator) -> SimulatedNode:
    train = [_train_steps(of, epoch, random) for epoch in range(EPOCHS)]
    return SimulatedNode(
        facts=_facts(workspace),
        series=_series(of, train, random),
        steps=tuple(train),
        events=tuple(_events(of, random)),
    )


def _facts(workspace: str) -> NodeFacts:
    machine = sample_id(workspace, JOB, "machine").hex[:17]
    return NodeFacts(
        machine_id=f"i-{machine}",
        hostname="training-1",
        provider="aws",
        service="ec2",
        region="us-east-1",
        instance_type="g5.xlarge",
        vcpus=VCPUS,
        effective_cpus=float(VCPUS),
        memory_bytes=MEMORY_GIB * GIB,
        effective_memory_bytes=MEMORY_GIB * GIB,
        cpu_model="AMD EPYC 7R32",
        gpus=[Gpu("NVIDIA A10G", 24 * GIB, f"GPU-{sample_id(machine, 0)}")],
    )


def _train_steps(of: Plan, epoch: int, random: np.random.Generator) -> Steps:
    begin_us = round((_STARTUP_SECONDS + epoch * of.epoch_seconds) * 1e6)
    total_us = round(STEPS_PER_EPOCH * of.step_seconds * 1e6)
    durations = shapes.split(random, total_us, STEPS_PER_EPOCH, noise=0.03)
    starts = begin_us + np.concatenate([[0], np.cumsum(durations[:-1])])
    share = random.normal(of.wait_seconds / of.step_seconds, 0.02, STEPS_PER_EPOCH)
    waits = shapes.whole(np.clip(share, 0, 0.9) * durations)
    return Steps(0, "train", starts, durations, waits, BATCH)


def _events(of: Plan, random: np.random.Generator) -> list[Happening]:
    ends_ms = round(_STARTUP_SECONDS * 1000)
    loader = {"workers": 2, "batch_size": BATCH, "pin_memory": True, "prefetch_factor": 2}
    events = [*_phase("initialise", 0, ends_ms), Happening(ends_ms, "loader", loader)]
    for epoch in range(EPOCHS):
        begin = round((_STARTUP_SECONDS + epoch * of.epoch_seconds) * 1000)
        trained = begin + round(STEPS_PER_EPOCH * of.step_seconds * 1000)
        ends_ms = trained + round(_EVALUATION_SECONDS * 1000)
        events += [*_phase("train", begin, trained), *_phase("evaluate", trained, ends_ms - 1500)]
        events += _phase("checkpoint", ends_ms - 1500, ends_ms - 100)
        events += _epoch_end(epoch + 1, trained, ends_ms - 100, random)
    return [*events, *_phase("finalise", ends_ms, of.duration_ms - 1)]


def _phase(name: str, begin_ms: int, end_ms: int) -> list[Happening]:
    data = {"phase": name, "rank": 0}
    return [Happening(begin_ms, "phase_begin", data), Happening(end_ms, "phase_end", data)]


def _epoch_end(
    number: int, trained_ms: int, saved_ms: int, random: np.random.Generator
) -> list[Happening]:
    loss = round(float(0.35 + 2.1 * 0.62**number + random.normal(0, 0.01)), 4)
    accuracy = round(float(0.93 - 0.55 * 0.66**number + random.normal(0, 0.003)), 4)
    step = number * STEPS_PER_EPOCH
    metrics = {"loss": loss, "validation_accuracy": accuracy}
    return [
        Happening(trained_ms, "epoch", {"number": number, "rank": 0}),
        *(
            Happening(trained_ms, "metric", {"name": n, "value": v, "step": step, "rank": 0})
            for n, v in metrics.items()
        ),
        Happening(saved_ms, "checkpoint", {"seconds": 1.4, "rank": 0}),
    ]


def _series(of: Plan, train: list[Steps], random: np.random.Generator) -> dict[str, Series]:
    training, working = _when(of, train)
    count, wait = of.ticks, of.wait_seconds / of.step_seconds
    gpu = np.where(working, shapes.wandering(random, 62, count), 0.0)
    gpu = np.where(training, shapes.wandering(random, 96 * (1 - wait), count), gpu)
    cpu = np.where(working, shapes.wandering(random, 35, count), 12.0)
    cpu = np.where(training, shapes.wandering(random, 47 + 160 * wait, count), cpu)
    reads = np.where(training, shapes.wandering(random, 9e6 / of.step_seconds, count), 1e5)
    memory = (3.1 + 4.4 * np.minimum(np.arange(count) / 12, 1)) * GIB
    return {
        "gpu0.busy_pct": shapes.percent(gpu),
        "gpu0.memory_used_bytes": shapes.whole(np.where(working, 11.3, 0.0) * GIB),
        "gpu0.power_watts": np.round(58 + 2.1 * gpu, 0),
        "host.cpu_busy_pct": shapes.percent(cpu),
        "host.cpu_iowait_pct": shapes.percent(np.where(training, 1.5 + 20 * wait, 0.3)),
        "host.memory_used_bytes": shapes.whole(memory),
        "disk.read_bytes_total": shapes.counter(reads, RESOLUTION_MS),
        "net.received_bytes_total": shapes.counter(0.02 * reads, RESOLUTION_MS),
        "tree.cpu_seconds_total": np.round(
            np.cumsum(0.95 * cpu / 100 * VCPUS) * RESOLUTION_MS / 1000, 2
        ),
        "tree.rss_bytes": shapes.whole(memory - 1.6 * GIB),
        "tree.processes_count": np.full(count, 4),
    }


def _when(of: Plan, train: list[Steps]) -> tuple[Series, Series]:
    """For each tick: whether in training steps, and whether between the first and last epoch."""
    at_us = np.arange(of.ticks) * RESOLUTION_MS * 1000
    spans = [(s.start_us[0], s.start_us[-1] + s.duration_us[-1]) for s in train]
    training = np.any([(at_us >= begin) & (at_us < end) for begin, end in spans], axis=0)
    evaluated_us = spans[-1][1] + _EVALUATION_SECONDS * 1e6
    return training, (at_us >= spans[0][0]) & (at_us < evaluated_us)

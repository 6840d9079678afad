"""The simulator of a training: what an agent would measure of it, from a few figures.

A step computes and waits for its data, on all ranks alike; epochs end with an evaluation and a
checkpoint. Use of GPUs, cores, disk and memory follows from that.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from webapp.sample_data import shapes
from webapp.sample_data.machines import SampleMachine
from webapp.sample_data.simulation import GIB, Series, SimulatedEvent, SimulatedNode, SimulatedSteps

VARIATION = (0.3, -1.1, 0.8, -0.4, 1.4, -0.9, 0.1, 1.0, -1.3, 0.4, -0.6, 0.7)
"""Deviation of each run's compute time, in standard deviations of 2 %; from the start again after
the last."""
_LOADING, _LATE = 0.5, 0.9
"""The load of a loader's core; and once the steps wait for it."""
_WAITS = 0.1
"""The share of the step time above which steps count as waiting."""


@dataclass(frozen=True)
class SimulatedTraining:
    """Training of one run, before noise. Seconds are of one step, or of what the name says."""

    machine: SampleMachine
    nodes: int = 1
    gpus_used: int = 1
    """The GPUs used on each node; each has a rank of its own. Without GPUs there is one rank a
    node."""
    epochs: int = 8
    steps_per_epoch: int = 250
    batch: int = 64
    """The batch size on each rank."""
    workers: int = 2
    """The processes that load data, on each rank."""
    compute_seconds: float = 0.752
    wait_seconds: float = 0.048
    startup_seconds: float = 60.0
    evaluation_seconds: float = 10.0
    saving_seconds: float = 1.4
    """The seconds of a checkpoint, one an epoch."""
    upload_seconds: float = 12.0
    busy_pct: float = 96.0
    """The load of a used GPU, or of all cores if there is none, while a step computes."""
    gpu_memory_gib: float = 11.3
    memory_gib: float = 7.5
    accuracy: float = 0.93
    """The approximate accuracy after the last epoch."""
    resolution_ms: int = 5_000
    fails_after: float | None = None
    """The share of the run that it lasts; None if it finishes."""

    @property
    def ranks_per_node(self) -> int:
        return self.gpus_used if self.machine.gpus else 1

    @property
    def step_seconds(self) -> float:
        return self.compute_seconds + self.wait_seconds

    @property
    def wait_share(self) -> float:
        return self.wait_seconds / self.step_seconds

    @property
    def epoch_seconds(self) -> float:
        return self.steps_per_epoch * self.step_seconds + self.evaluation_seconds

    @property
    def whole_ms(self) -> int:
        """Return the length of the run if it finishes."""
        trained = self.startup_seconds + self.epochs * self.epoch_seconds
        return round((trained + self.upload_seconds) * 1000)

    @property
    def duration_ms(self) -> int:
        return round(self.whole_ms * (1.0 if self.fails_after is None else self.fails_after))

    @property
    def ticks(self) -> int:
        return -(-self.whole_ms // self.resolution_ms)


def deviation(number: int) -> float:
    """Return the factor by which a run's compute time differs."""
    return 1 + 0.02 * VARIATION[(number - 1) % len(VARIATION)]


def simulated_nodes(of: SimulatedTraining, seed: int, *names: object) -> tuple[SimulatedNode, ...]:
    """Return the machines of one run; `names` tell them from other jobs' machines."""
    random = np.random.default_rng(seed)
    places = product(range(of.nodes * of.ranks_per_node), range(of.epochs))
    train = [_train_steps(of, epoch, rank, random) for rank, epoch in places]
    when = _when(of, train[: of.epochs])
    return tuple(_node(of, number, train, when, random, names) for number in range(of.nodes))


def _node(
    of: SimulatedTraining,
    number: int,
    train: list[SimulatedSteps],
    when: tuple[Series, Series],
    random: np.random.Generator,
    names: tuple[object, ...],
) -> SimulatedNode:
    first_rank = number * of.ranks_per_node
    own = range(first_rank, first_rank + of.ranks_per_node)
    return SimulatedNode(
        facts=of.machine.facts(number, *names),
        series=_gpu_series(of, when, random) | _host_series(of, when, random),
        steps=tuple(steps for steps in train if steps.rank in own),
        events=tuple(_events(of, first_rank, random)),
    )


def _train_steps(
    of: SimulatedTraining, epoch: int, rank: int, random: np.random.Generator
) -> SimulatedSteps:
    begin_us = round((of.startup_seconds + epoch * of.epoch_seconds) * 1e6)
    total_us = round(of.steps_per_epoch * of.step_seconds * 1e6)
    durations = shapes.split(random, total_us, of.steps_per_epoch, noise=0.03)
    starts = begin_us + np.concatenate([[0], np.cumsum(durations[:-1])])
    share = random.normal(of.wait_share, 0.02, of.steps_per_epoch)
    waits = shapes.round_to_int(np.clip(share, 0, 0.9) * durations)
    return SimulatedSteps(rank, "train", starts, durations, waits, of.batch)


def _events(of: SimulatedTraining, rank: int, random: np.random.Generator) -> list[SimulatedEvent]:
    """Return the phases of every node; epochs, metrics and checkpoints of the first rank only."""
    ends_ms = round(of.startup_seconds * 1000)
    loader = {
        "workers": of.workers,
        "batch_size": of.batch,
        "pin_memory": bool(of.machine.gpus),
        "prefetch_factor": 2,
    }
    events = [*_phase("initialise", rank, 0, ends_ms), SimulatedEvent(ends_ms, "loader", loader)]
    for epoch in range(of.epochs):
        begin = round((of.startup_seconds + epoch * of.epoch_seconds) * 1000)
        trained = begin + round(of.steps_per_epoch * of.step_seconds * 1000)
        ends_ms = trained + round(of.evaluation_seconds * 1000)
        events += _phase("train", rank, begin, trained)
        saving_ms = ends_ms - 100 - round(of.saving_seconds * 1000)
        events += _phase("evaluate", rank, trained, saving_ms)
        if rank == 0:
            events += _phase("checkpoint", rank, saving_ms, ends_ms - 100)
            events += _epoch_end(of, epoch + 1, trained, ends_ms - 100, random)
    return [*events, *_phase("finalise", rank, ends_ms, of.whole_ms - 1)]


def _phase(name: str, rank: int, begin_ms: int, end_ms: int) -> list[SimulatedEvent]:
    data = {"phase": name, "rank": rank}
    return [
        SimulatedEvent(begin_ms, "phase_begin", data),
        SimulatedEvent(end_ms, "phase_end", data),
    ]


def _epoch_end(
    of: SimulatedTraining, number: int, trained_ms: int, saved_ms: int, random: np.random.Generator
) -> list[SimulatedEvent]:
    missing = 0.6 * of.accuracy * 0.66**number
    metrics = {
        "loss": round(float(0.35 + 2.1 * 0.62**number + random.normal(0, 0.01)), 4),
        "validation_accuracy": round(float(of.accuracy - missing + random.normal(0, 0.003)), 4),
    }
    step = number * of.steps_per_epoch
    return [
        SimulatedEvent(trained_ms, "epoch", {"number": number, "rank": 0}),
        *(
            SimulatedEvent(trained_ms, "metric", {"name": n, "value": v, "step": step, "rank": 0})
            for n, v in metrics.items()
        ),
        SimulatedEvent(saved_ms, "checkpoint", {"seconds": of.saving_seconds, "rank": 0}),
    ]


def _when(of: SimulatedTraining, train: list[SimulatedSteps]) -> tuple[Series, Series]:
    """Return, for each tick, whether it is in training steps, and whether it is between the first
    and last epoch.
    """
    at_us = np.arange(of.ticks) * of.resolution_ms * 1000
    spans = [(s.start_us[0], s.start_us[-1] + s.duration_us[-1]) for s in train]
    training = np.any([(at_us >= begin) & (at_us < end) for begin, end in spans], axis=0)
    evaluated_us = spans[-1][1] + of.evaluation_seconds * 1e6
    return training, (at_us >= spans[0][0]) & (at_us < evaluated_us)


def _level(
    when: tuple[Series, Series],
    random: np.random.Generator,
    training: float,
    evaluating: float,
    otherwise: float,
) -> Series:
    """Return a quantity that depends on what the training does."""
    count = len(when[0])
    values = np.where(when[1], shapes.wandering(random, evaluating, count), otherwise)
    return np.where(when[0], shapes.wandering(random, training, count), values)


def _gpu_series(
    of: SimulatedTraining, when: tuple[Series, Series], random: np.random.Generator
) -> dict[str, Series]:
    series: dict[str, Series] = {}
    idle_watts, more_watts = of.machine.gpu_watts
    for number in range(of.machine.gpus):
        busy = np.zeros(of.ticks)
        held = 0.0
        if number < of.gpus_used:
            busy = _level(when, random, of.busy_pct * (1 - of.wait_share), 0.65 * of.busy_pct, 0.0)
            held = of.gpu_memory_gib
        series[f"gpu{number}.busy_pct"] = shapes.percent(busy)
        series[f"gpu{number}.memory_used_bytes"] = shapes.round_to_int(
            np.where(when[1], held, 0) * GIB
        )
        series[f"gpu{number}.power_watts"] = np.round(idle_watts + more_watts * busy / 100, 0)
    return series


def _host_series(
    of: SimulatedTraining, when: tuple[Series, Series], random: np.random.Generator
) -> dict[str, Series]:
    vcpus = of.machine.vcpus
    cpu = _level(when, random, *_cpu_levels(of))
    cores = 0.95 * cpu / 100 * vcpus
    rank_reads = 1.4e5 * of.batch * of.ranks_per_node / of.step_seconds
    reads = np.where(when[0], shapes.wandering(random, rank_reads, of.ticks), 1e5)
    network = 0.02 * reads if of.nodes == 1 else 6 * reads
    memory = (3.1 + (of.memory_gib - 3.1) * np.minimum(np.arange(of.ticks) / 12, 1)) * GIB
    return {
        "host.cpu_busy_pct": shapes.percent(cpu),
        "host.cpu_iowait_pct": shapes.percent(np.where(when[0], 1.5 + 20 * of.wait_share, 0.3)),
        "host.memory_used_bytes": shapes.round_to_int(memory),
        "disk.read_bytes_total": shapes.counter(reads, of.resolution_ms),
        "net.received_bytes_total": shapes.counter(network, of.resolution_ms),
        "tree.cpu_seconds_total": np.round(np.cumsum(cores) * of.resolution_ms / 1000, 2),
        "tree.rss_bytes": shapes.round_to_int(memory - 1.6 * GIB),
        "tree.processes_count": np.full(of.ticks, 2 + of.ranks_per_node * of.workers),
    }


def _cpu_levels(of: SimulatedTraining) -> tuple[float, float, float]:
    """Return percentages of all cores: in steps, in evaluations, and otherwise. With GPUs, a rank
    keeps one core busy, and each of its loaders a part of one.
    """
    if not of.machine.gpus:
        return of.busy_pct, 0.7 * of.busy_pct, 4.0
    loading = _LATE if of.wait_share >= _WAITS else _LOADING
    cores = of.ranks_per_node * (1 + of.workers * loading)
    level = min(97.0, 100 * cores / of.machine.vcpus)
    return level, 0.7 * level, 0.2 * level

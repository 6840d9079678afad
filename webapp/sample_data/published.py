"""The published case: a distributed training on twelve GPUs, then on two, at a sixth of the cost.

The figures are those that AWS published in December 2020 for a sentiment analysis with TensorFlow
and Horovod on SageMaker: instance types, counts, processes a host, seconds, epochs, batch sizes,
the 95th percentiles of GPU and CPU use of each node, and 45 % of the time in the training loop.
Figures that AWS didn't publish (steps, data wait, memory, loss) are invented to fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from trimtab.wire import Gpu, NodeFacts

from webapp.sample_data import shapes
from webapp.sample_data.simulation import (
    GIB,
    Series,
    SimulatedEvent,
    SimulatedNode,
    SimulatedRun,
    SimulatedSteps,
    sample_id,
)

JOB = "review-sentiment/train.py"
EPOCHS = 25
SAMPLES_PER_EPOCH = 25_088
RESOLUTION_MS = 500
LOOP_SHARE = 0.45
"""The share of the run in the training loop; 44 % are before it, and evaluation and upload after
it."""
_BEFORE, _EVALUATION = 0.44, 0.07


@dataclass(frozen=True)
class Case:
    number: int
    started_at: datetime
    instance_type: str
    nodes: int
    gpus_per_node: int
    processes_per_node: int
    seconds: int
    global_batch: int
    vcpus: int
    memory_gib: int
    gpu_p95_pct: float
    cpu_p95_pct: float
    data_wait_share: float

    @property
    def ranks(self) -> int:
        return self.nodes * self.processes_per_node

    @property
    def ticks(self) -> int:
        return self.seconds * 1000 // RESOLUTION_MS

    def phase_us(self) -> tuple[int, int, int]:
        """Return when the loop began, when it ended, and when the evaluation after it ended."""
        total = self.seconds * 1_000_000
        begin = round(_BEFORE * total)
        end = begin + round(LOOP_SHARE * total)
        return begin, end, end + round(_EVALUATION * total)

    def ticks_of(self, begin_us: int, end_us: int) -> slice:
        return slice(*(round(edge / 1000 / RESOLUTION_MS) for edge in (begin_us, end_us)))


FIRST = Case(
    number=1,
    started_at=datetime(2020, 12, 14, 17, 20, tzinfo=UTC),
    instance_type="ml.p3.8xlarge",
    nodes=3,
    gpus_per_node=4,
    processes_per_node=3,
    seconds=503,
    global_batch=256,
    vcpus=32,
    memory_gib=244,
    gpu_p95_pct=13.5,
    cpu_p95_pct=24.4,
    data_wait_share=0.38,
)
SECOND = Case(
    number=2,
    started_at=datetime(2020, 12, 14, 18, 5, tzinfo=UTC),
    instance_type="ml.p3.2xlarge",
    nodes=2,
    gpus_per_node=1,
    processes_per_node=1,
    seconds=502,
    global_batch=512,
    vcpus=8,
    memory_gib=61,
    gpu_p95_pct=46.0,
    cpu_p95_pct=61.0,
    data_wait_share=0.11,
)


def published_runs(workspace: str) -> list[SimulatedRun]:
    return [_run(case, workspace) for case in (FIRST, SECOND)]


def _run(case: Case, workspace: str) -> SimulatedRun:
    run_id = sample_id(workspace, JOB, case.number)
    random = np.random.default_rng(case.number)
    durations = shapes.split(random, _loop_us(case), _step_count(case))
    return SimulatedRun(
        run_id=run_id,
        job=JOB,
        started_at=case.started_at,
        duration_ms=case.seconds * 1000,
        resolution_ms=RESOLUTION_MS,
        segment_ms=60_000,
        nodes=tuple(_node(case, run_id, n, durations, random) for n in range(case.nodes)),
        owner="Lena",
        team="language",
        parameters=_parameters(case),
        workload={"entry_point": "train.py", "dataset": "reviews", "model": "sentiment-cnn"},
        command=["python", "train.py", "--epochs", "25", "--batch-size", str(case.global_batch)],
        git_commit=sample_id("commit", JOB, case.number).hex,
    )


def _parameters(case: Case) -> dict[str, Any]:
    return {
        "epochs": EPOCHS,
        "batch_size": case.global_batch,
        "processes_per_host": case.processes_per_node,
        "instance_count": case.nodes,
        "optimizer": "adam",
    }


def _loop_us(case: Case) -> int:
    begin, end, _ = case.phase_us()
    return end - begin


def _step_count(case: Case) -> int:
    return EPOCHS * SAMPLES_PER_EPOCH // case.global_batch


def _node(
    case: Case, run_id: object, number: int, durations: Series, random: np.random.Generator
) -> SimulatedNode:
    first_rank = number * case.processes_per_node
    ranks = range(first_rank, first_rank + case.processes_per_node)
    return SimulatedNode(
        facts=_facts(case, run_id, number),
        series=_gpu_series(case, random) | _host_series(case, random),
        steps=tuple(_steps(case, rank, durations, random) for rank in ranks),
        events=_events(case, first_rank, durations),
    )


def _facts(case: Case, run_id: object, number: int) -> NodeFacts:
    machine = sample_id(run_id, "machine", number).hex[:17]
    cards = [
        Gpu("Tesla V100-SXM2-16GB", 16 * GIB, f"GPU-{sample_id(machine, card)}")
        for card in range(case.gpus_per_node)
    ]
    return NodeFacts(
        machine_id=f"i-{machine}",
        hostname=f"algo-{number + 1}",
        provider="aws",
        service="sagemaker_training",
        region="us-west-2",
        instance_type=case.instance_type,
        owns_machine=True,
        vcpus=case.vcpus,
        effective_cpus=float(case.vcpus),
        memory_bytes=case.memory_gib * GIB,
        effective_memory_bytes=case.memory_gib * GIB,
        cpu_model="Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz",
        gpus=cards,
    )


def _steps(case: Case, rank: int, durations: Series, random: np.random.Generator) -> SimulatedSteps:
    """Return one rank of a synchronous training: all ranks step together, each waits on its own."""
    begin, _, _ = case.phase_us()
    starts = begin + np.concatenate([[0], np.cumsum(durations[:-1])])
    share = np.clip(random.normal(case.data_wait_share, 0.03, len(durations)), 0, 0.9)
    spare = case.global_batch % case.ranks
    own_batch = case.global_batch // case.ranks + (1 if rank < spare else 0)
    return SimulatedSteps(
        rank, "train", starts, durations, shapes.round_to_int(share * durations), own_batch
    )


def _events(case: Case, first_rank: int, durations: Series) -> tuple[SimulatedEvent, ...]:
    """Return the phases of every node; epochs and metrics of the first rank only."""
    begin, end, evaluated = (round(edge / 1000) for edge in case.phase_us())
    edges = [("initialise", 0, begin), ("train", begin, end), ("evaluate", end, evaluated)]
    edges.append(("finalise", evaluated, case.seconds * 1000 - 1))
    events = []
    for phase, start, stop in edges:
        data = {"phase": phase, "rank": first_rank}
        events += [
            SimulatedEvent(start, "phase_begin", data),
            SimulatedEvent(stop, "phase_end", data),
        ]
    if first_rank == 0:
        events += _progress(begin, durations)
    return tuple(sorted(events, key=lambda event: event.time_ms))


def _progress(begin_ms: int, durations: Series) -> list[SimulatedEvent]:
    events = []
    per_epoch = len(durations) // EPOCHS
    ends = begin_ms + np.cumsum(durations)[per_epoch - 1 :: per_epoch] // 1000
    for epoch, time_ms in enumerate(ends.tolist(), start=1):
        at = min(time_ms, begin_ms + int(durations.sum()) // 1000 - 1)
        loss = round(0.18 + 0.5 * 0.86**epoch, 4)
        metric = {"name": "loss", "value": loss, "step": epoch * per_epoch, "rank": 0}
        events.append(SimulatedEvent(at, "epoch", {"number": epoch, "rank": 0}))
        events.append(SimulatedEvent(at, "metric", metric))
    return events


def _gpu_series(case: Case, random: np.random.Generator) -> dict[str, Series]:
    busy = _gpu_busy(case, random)
    begin, _, evaluated = case.phase_us()
    held = case.ticks_of(begin, evaluated)
    series: dict[str, Series] = {}
    for number, pct in enumerate(busy):
        memory = np.zeros(case.ticks)
        memory[held] = 0.22 * 16 * GIB if pct.any() else 0
        series[f"gpu{number}.busy_pct"] = shapes.percent(pct)
        series[f"gpu{number}.memory_used_bytes"] = shapes.round_to_int(memory)
        series[f"gpu{number}.power_watts"] = np.round(42 + 1.9 * pct, 0)
    return series


def _gpu_busy(case: Case, random: np.random.Generator) -> list[Series]:
    """Return how busy each GPU is. The percentile applies to the node's mean and to the samples of
    all its GPUs.

    In the loop the GPUs in use share the work; the first one then evaluates alone, and is as busy
    as all of them together would be at the published mean.
    """
    begin, end, evaluated = case.phase_us()
    loop, evaluation = case.ticks_of(begin, end), case.ticks_of(end, evaluated)
    busy = [np.zeros(case.ticks) for _ in range(case.gpus_per_node)]
    busy[0][evaluation] = shapes.wandering(random, 1.0, evaluation.stop - evaluation.start)
    busy[0] = shapes.scaled_to_p95(busy[0], case.gpus_per_node * case.gpu_p95_pct)
    for pct in busy[: case.processes_per_node]:
        level = 0.955 * case.gpu_p95_pct
        pct[loop] = shapes.wandering(random, level, loop.stop - loop.start)
    return busy


def _host_series(case: Case, random: np.random.Generator) -> dict[str, Series]:
    begin, _, evaluated = case.phase_us()
    loop = case.ticks_of(begin, evaluated)
    level = shapes.wandering(random, 0.4, case.ticks)
    level[loop] = shapes.wandering(random, 1.0, loop.stop - loop.start)
    cpu = shapes.scaled_to_p95(level, case.cpu_p95_pct)
    cores = cpu / 100 * case.vcpus
    memory = (6 + 9 * np.minimum(np.arange(case.ticks) / loop.start, 1)) * GIB
    network = shapes.wandering(random, 2e6, case.ticks)
    network[loop] = shapes.wandering(random, 4e7, loop.stop - loop.start)
    return {
        "host.cpu_busy_pct": shapes.percent(cpu),
        "host.memory_used_bytes": shapes.round_to_int(memory),
        "net.received_bytes_total": shapes.counter(network, RESOLUTION_MS),
        "net.sent_bytes_total": shapes.counter(network, RESOLUTION_MS),
        "disk.read_bytes_total": shapes.counter(0.3 * network, RESOLUTION_MS),
        "tree.cpu_seconds_total": np.round(np.cumsum(0.92 * cores) * RESOLUTION_MS / 1000, 2),
        "tree.rss_bytes": shapes.round_to_int(memory - 3 * GIB),
    }

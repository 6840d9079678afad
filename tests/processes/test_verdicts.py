"""Worker processes are killed at random while runs arrive: no verdict, number or cent differs."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psutil
import pytest
from trimtab.wire import Gpu, NodeFacts

from rules.frame import NodeFrame, RunFrame
from tests.processes.test_mail import PatientClient
from tests.rules.scenarios.labelled import labelled
from tests.rules.scenarios.registry import SCENARIOS
from tests.running_service import Service, wait_until
from webapp.sample_data.load import SampleUpload, uploads_of
from webapp.sample_data.simulation import (
    SimulatedEvent,
    SimulatedNode,
    SimulatedRun,
    SimulatedSteps,
    sample_id,
)

pytestmark = [pytest.mark.processes, pytest.mark.long, pytest.mark.timeout(900)]
RULES = ("epoch_gaps", "hung", "input_bound", "low_gpu_utilization", "unused_gpus")
"""Each round has a run of each of these findings, with others in it."""
KILLS = 20
PATIENCE_SECONDS = 300
"""A killed worker's lease lasts for a minute, and a worker stays down for up to half a minute."""
FIRST_START = datetime(2026, 3, 14, 9, tzinfo=UTC)
TOLD_BY_ITSELF = ("process_start", "process_exit", "session_end")
JUDGED = """
SELECT rule, rule_version, values_hash, numbers, state, severity, summary, advice, dedupe_key,
       waste_seconds_low, waste_seconds_high, waste_usd_low, waste_usd_high, is_provisional
FROM analysis_judgement WHERE run_id = :run ORDER BY rule
"""
LABELLED = """
SELECT n.number, l.gpu, l.label, l.microseconds, l.usd FROM analysis_ledgerentry l
JOIN runs_node n ON n.id = l.node_id WHERE l.run_id = :run ORDER BY 1, 2, 3
"""
PAID = (
    "SELECT day, SUM(microseconds), SUM(usd) FROM analysis_costpart WHERE run_id = :run GROUP BY 1"
)
WORK = "SELECT work, metrics, cost_usd FROM runs_run WHERE id = :run"
UNDONE = "SELECT COUNT(*) FROM analysis_analysis WHERE NOT is_final OR done < wanted"


def scenario_run(rule_id: str, seed: int) -> SimulatedRun:
    """Return a labelled run as agents send it. Its machines and its hours are its own: runs that
    share a machine share its cost.
    """
    scenario = next(each for each in SCENARIOS if each.rule_id == rule_id)
    frame = next(labelled(scenario, seed, 1)).frame
    hours = len(RULES) * seed + RULES.index(rule_id)
    return SimulatedRun(
        run_id=sample_id("verdicts", seed, rule_id),
        job=f"{rule_id}-{seed}",
        started_at=FIRST_START + timedelta(hours=2 * hours),
        duration_ms=round(frame.duration_seconds * 1000),
        resolution_ms=round(frame.resolution_seconds * 1000),
        segment_ms=60_000,
        nodes=tuple(_node(node, frame, f"{rule_id}-{seed}") for node in frame.nodes.values()),
        owner="ada",
        parameters={},
        workload={"entry_point": "train.py"},
        command=["python", "train.py"],
        git_commit="",
    )


def _node(node: NodeFrame, frame: RunFrame, name: str) -> SimulatedNode:
    hardware = node.hardware
    facts = NodeFacts(
        machine_id=f"{name}-{node.key}",
        hostname=node.key,
        provider="aws",
        service="ec2",
        region="us-east-1",
        instance_type="p3.8xlarge",
        vcpus=hardware.vcpus,
        effective_cpus=hardware.effective_cpus,
        memory_bytes=hardware.memory_bytes,
        effective_memory_bytes=hardware.memory_bytes,
        gpus=[
            Gpu(card.model, card.memory_bytes, f"GPU-{name}-{node.key}-{number}")
            for number, card in enumerate(hardware.gpus)
        ],
    )
    known = node.samples.astype(object).where(node.samples.notna(), None)
    return SimulatedNode(
        facts=facts,
        series={str(column): known[column].to_numpy() for column in known},
        steps=tuple(_steps(node)),
        events=tuple(
            SimulatedEvent(
                min(round(1000 * at), round(1000 * frame.duration_seconds) - 1), kind, data
            )
            for at, kind, data in node.events.itertuples(index=False)
            if kind not in TOLD_BY_ITSELF
        ),
    )


def _steps(node: NodeFrame) -> Iterator[SimulatedSteps]:
    for (rank, phase), part in node.steps.groupby(["rank", "phase"]):
        columns = ("start_seconds", "duration_seconds", "data_wait_seconds")
        times = (np.round(part[name].to_numpy(float) * 1e6).astype(np.int64) for name in columns)
        yield SimulatedSteps(int(rank), str(phase), *times, samples=32)


def kept(service: Service, sql: str, **named: str) -> list[tuple[Any, ...]]:
    database = service.data_dir / "trimtab.sqlite3"
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=20) as connection:
        return connection.execute(sql, named).fetchall()


@dataclass
class Verdicts:
    """All that analyses made of a run, of whatever number of them."""

    judged: dict[str, tuple[Any, ...]]
    labels: list[tuple[Any, ...]]
    paid: list[tuple[Any, ...]]
    work: tuple[Any, ...]


def verdicts(service: Service, run: SimulatedRun) -> Verdicts:
    key = run.run_id.hex
    judged = {
        row[0]: (*row[1:3], json.loads(row[3]), *row[4:]) for row in kept(service, JUDGED, run=key)
    }
    (work,) = kept(service, WORK, run=key)
    found = (*(json.loads(each) for each in work[:2]), work[2])
    return Verdicts(judged, kept(service, LABELLED, run=key), kept(service, PAID, run=key), found)


def upload(service: Service, uploads: Iterator[SampleUpload], pause_seconds: float = 0.0) -> None:
    client = PatientClient(service)
    for each in uploads:
        sent_at = {"X-Trimtab-Sent-At": str(time.time_ns())}
        known = {"Authorization": f"Bearer {service.token}", "Content-Encoding": "gzip"}
        client.put(each.path, each.body, each.content_type, known | sent_at)
        time.sleep(pause_seconds)


def wait_until_judged(service: Service) -> None:
    def left() -> list[tuple[Any, ...]]:
        return kept(service, "SELECT wanted, done, attempts, error FROM analysis_analysis")

    wait_until(lambda: kept(service, UNDONE) == [(0,)], PATIENCE_SECONDS, "final analyses", left)


def shuffled(runs: list[SimulatedRun], chance: random.Random) -> Iterator[SampleUpload]:
    """Yield uploads of all runs by turns, each run's in its order."""
    waiting = [uploads_of(run) for run in runs]
    while waiting:
        of_run = chance.choice(waiting)
        order = next(of_run, None)
        if order is None:
            waiting.remove(of_run)
        else:
            yield order


def kill_workers(service: Service, chance: random.Random, sending: Future[None]) -> int:
    """`kill -9` a process of the worker's pool, or sometimes the worker itself, whose restart delay
    grows with each kill. Returns the number of kills."""
    killed = 0
    while killed < KILLS or not sending.done():
        time.sleep(chance.uniform(0.5, 3))
        worker = service.part("worker")
        try:
            pool = worker.children() if worker else []
            if worker is None or not pool:
                continue
            (worker if chance.random() < 0.2 else chance.choice(pool)).kill()
        except psutil.NoSuchProcess:
            continue
        killed += 1
    return killed


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Yield a service whose processes nobody kills."""
    service = Service(tmp_path_factory.mktemp("calm")).start()
    yield service
    service.stop()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killing_workers_at_random_changes_no_verdict(calm, service, seed):
    runs = [scenario_run(rule_id, seed) for rule_id in RULES]
    upload(calm, shuffled(runs, random.Random(seed)))
    chance = random.Random(100 + seed)
    with ThreadPoolExecutor(1) as pool:
        uploads = list(shuffled(runs, chance))
        sending = pool.submit(upload, service, iter(uploads), 50 / len(uploads))
        killed = kill_workers(service, chance, sending)
        sending.result()
    wait_until_judged(calm)
    wait_until_judged(service)
    assert killed >= KILLS
    for run, rule_id in zip(runs, RULES, strict=True):
        undisturbed = verdicts(calm, run)
        assert undisturbed.judged[rule_id][3] == "fired"
        assert verdicts(service, run) == undisturbed

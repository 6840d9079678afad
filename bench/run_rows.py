"""Rows as analyses leave them, written at once: for what isn't measured itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import uuid4

BATCH = 1000
HOURS = 6
"""The hours between two runs of a job, unless told otherwise."""
PROGRESS = [[float(n * 18), 2.0 - n / 60] for n in range(100)]
"""The curve of the loss: [[seconds, value], ...]."""


def make_runs(jobs, count: int, hours: float = HOURS) -> list:  # type: ignore[no-untyped-def, type-arg]
    """Make so many finished runs of each job, job by job; each on one node with its cost and
    findings.

    Args:
        hours: the time between two runs of a job. The jobs take turns; the first one ran an hour
            ago.
    """
    from webapp.analysis.models import Analysis, CostPart, Judgement
    from webapp.database.tasks import optimise_database
    from webapp.runs.models import Attempt

    if not jobs:
        return []
    turns = [(job, hours * place / len(jobs)) for place, job in enumerate(jobs)]
    runs = [
        new_run(job, number, 1 + turn + hours * (count - number))
        for job, turn in turns
        for number in range(1, count + 1)
    ]
    attempts = [Attempt(run=run, number=0) for run in runs]
    nodes = [_node(attempt) for attempt in attempts]
    sessions = [_session(node, run) for node, run in zip(nodes, runs, strict=True)]
    parts = [
        CostPart(
            run=run,
            node=node,
            day=run.started_at.date(),
            usd=run.cost_usd,
            microseconds=1800 * 10**6,
            charges=_charges(run),
        )
        for node, run in zip(nodes, runs, strict=True)
    ]
    judgements = [
        Judgement(
            run=run, rule=rule, rule_version=1, values_hash="0" * 16, values={},
            numbers={"values": {}, "windows": []},
            state="fired" if rule == "input_bound" else "passed", severity="medium", summary="So.",
        )
        for run in runs
        for rule in ("input_bound", "cpu_oversized", "LowGPUUtilization")
    ]  # fmt: skip
    analyses = [Analysis(run=run, wanted=9, done=9, is_final=True) for run in runs]
    for rows in (runs, attempts, nodes, sessions, parts, judgements, analyses):
        type(rows[0]).objects.bulk_create(rows, batch_size=BATCH)
    for job in jobs:
        job.runs_made = count
    type(jobs[0]).objects.bulk_update(jobs, ["runs_made"], batch_size=BATCH)
    optimise_database()
    return runs


def new_run(job, number: int, hours_ago: float):  # type: ignore[no-untyped-def]
    """Return a finished run of half an hour that isn't stored yet."""
    from advisor.run_summary import from_document
    from webapp.runs.models import Run

    started_at = datetime.now(UTC) - timedelta(hours=hours_ago)
    cost = Decimal("0.503") * (100 + number * 37 % 7) / 100
    run = Run(
        id=uuid4(), workspace=job.workspace, job=job, number=number, owner="ada",
        state=Run.FINISHED, started_at=started_at, ended_at=started_at + timedelta(minutes=30),
        created_at=started_at, cost_usd=cost.quantize(Decimal("1e-9")),
        tags={"team": ("vision", "speech")[number % 2]},
        parameters={"workers": 4, "lr": 0.1, "batch_size": 64},
        configuration={"instance_type": "g5.xlarge", "node_count": 1, "workers": 4},
        workload={"entry_point": "train.py"}, work={"samples": 128_000.0, "steps": 2000.0},
        metrics={"loss": 0.19}, metric_progress={"loss": PROGRESS},
        command=["python", "train.py", "--epochs", "30"],
    )  # fmt: skip
    run.summary = from_document(summary())
    return run


def summary() -> dict[str, object]:
    return {
        "steps": 2000, "step_seconds_p50": 0.61, "data_wait_share": 0.21,
        "cpu_busy_p95_pct": 50.0, "gpu_busy_p95_pct": 80.0, "memory_p99_bytes": 9e9,
        "cores_busy_p95": 2.0,
        "phase_seconds": {"initialise": 30.0, "train": 1750.0, "finalise": 20.0},
        "phase_usd": {"initialise": "0.01", "train": "0.48", "finalise": "0.01"},
        "usd_per_hour": "1.006", "basis": "list",
        "instance_types": ["g5.xlarge"], "node_count": 1, "missing": [], "unreadable": 0,
        "verdict": {
            "status": "ok", "rung": "change_points", "direction": "same", "since": None,
            "unit": "samples", "baseline_runs": 30, "change": 0.01, "expected_usd": 4e-6,
            "low_usd": 3.7e-6, "high_usd": 4.3e-6, "detects": 0.07, "causes": [],
            "sentence": "As expected: +1.0 % cost per sample against 30 comparable runs.",
        },
    }  # fmt: skip


def _node(attempt):  # type: ignore[no-untyped-def]
    from webapp.runs.models import Node

    return Node(
        attempt=attempt, machine_id=f"i-{uuid4().hex[:12]}", provider="aws", service="ec2",
        region="us-east-1", instance_type="g5.xlarge", vcpus=4, effective_cpus=4,
        gpus=[{"model": "NVIDIA A10G", "memory_bytes": 24 * 2**30, "uuid": "g", "allocated": True}],
    )  # fmt: skip


def _session(node, run):  # type: ignore[no-untyped-def]
    from webapp.runs.models import Session

    half_an_hour = 30 * 60 * 1000
    return Session(
        id=uuid4(), node=node, boot_id="b", started_at=run.started_at, last_ms=half_an_hour,
        ended_ms=half_an_hour,
    )  # fmt: skip


def _charges(run):  # type: ignore[no-untyped-def]
    from advisor.costing.charges import Charge, DayCharges, as_document

    charge = Charge(run.started_at, run.ended_at, Fraction(run.cost_usd) * 2)
    return as_document(run.started_at.date(), DayCharges(Fraction(0), (charge,)))

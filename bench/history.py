"""The server time of the pages of a job with many runs.

    python -m bench.history [--runs 10000] [--check]

Creates a workspace with one job of that many analysed runs, and a tenth as many runs of other jobs,
in its own SQLite database. Requests each page through Django's handler, signed in, and prints the
median CPU time (with the database's work) and wall time, which depends on the machine's load.
Nothing is cached. `--check` exits with 1 if a page needs 200 ms of CPU time or more.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import uuid4

from bench.figures import note
from bench.own_service import own_service

MOST_SECONDS = 0.2
TIMES = 7
BATCH = 1000
HOURS = 6
"""Between two runs."""
PROGRESS = [[float(n * 18), 2.0 - n / 60] for n in range(100)]
"""Of the loss: [[seconds, value], ...]."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    with own_service("history"):
        slow = list(_measured(_History(arguments.runs)))
    note("pages", "; ".join(slow) or "each of them", not slow)
    for line in slow:
        print(f"NOT KEPT: {line}")
    return 1 if arguments.check and slow else 0


class _History:
    """The rows, and a signed-in client."""

    def __init__(self, count: int) -> None:
        from django.test import Client

        from webapp.accounts.models import Membership, Token, User, Workspace
        from webapp.runs.models import Job
        from webapp.spend.models import Budget

        self.workspace = Workspace.objects.create(name="History", time_zone="Europe/Berlin")
        user = User.objects.create_user("ada@example.org")
        Membership.objects.create(workspace=self.workspace, user=user, role=Membership.OWNER)
        self.job = Job.objects.create(workspace=self.workspace, name="nightly/train.py")
        Budget.objects.create(workspace=self.workspace, amount_usd=Decimal(5000))
        Budget.objects.create(workspace=self.workspace, job=self.job, amount_usd=Decimal(90))
        self.runs = _make_runs(self.job, count)
        for number in range(count // 1000):
            other = Job.objects.create(workspace=self.workspace, name=f"other-{number}.py")
            _make_runs(other, 100)
        self.client = Client(SERVER_NAME="localhost")
        self.client.force_login(user)
        self.token = Token.make(self.workspace, "script", [Token.READ])[1]

    def page(self, address: str) -> Callable[[], None]:
        def ask() -> None:
            answer = self.client.get(address)
            if answer.status_code != 200:
                raise SystemExit(f"{address} answered {answer.status_code}")

        return ask

    def what_if(self) -> None:
        """Two regions and two ways to buy, of the newest run."""
        asked = {"regions": ["us-east-1", "us-west-2"], "options": ["on_demand", "spot"]}
        address = f"/api/v1/runs/{self.runs[-1].pk}/what-if"
        bearer = {"Authorization": f"Bearer {self.token}"}
        answer = self.client.post(address, asked, content_type="application/json", headers=bearer)
        if answer.status_code != 200:
            raise SystemExit(f"{address} answered {answer.status_code}: {answer.content!r}")


def _make_runs(job, count: int) -> list:  # type: ignore[no-untyped-def, type-arg]
    """Finished runs, the last one an hour ago, each on one node with its cost and findings."""
    from webapp.analysis.models import Analysis, CostPart, Judgement
    from webapp.database.tasks import optimise_database
    from webapp.runs.models import Attempt

    runs = [_run(job, number, count) for number in range(1, count + 1)]
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
    job.runs_made = count
    job.save()
    optimise_database()
    return runs


def _run(job, number: int, count: int):  # type: ignore[no-untyped-def]
    from advisor.run_summary import from_document
    from webapp.runs.models import Run

    now = datetime.now(UTC)
    started_at = now - timedelta(hours=HOURS * (count - number) + 1)
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
    run.summary = from_document(_summary())
    return run


def _summary() -> dict[str, object]:
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


def _measured(history: _History) -> Iterator[str]:
    """Prints each page's times. Yields the pages that take too long."""
    print(f"{'':34}{'processor':>10}{'clock':>10}")
    for name, ask in _questions(history):
        ask()
        times = [_timed(ask) for _ in range(TIMES)]
        processor, clock = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"{name:34}{1000 * processor:7.0f} ms{1000 * clock:7.0f} ms", flush=True)
        if processor >= MOST_SECONDS:
            yield f"{name} takes {1000 * processor:.0f} ms"


def _questions(history: _History) -> Iterator[tuple[str, Callable[[], None]]]:
    from django.db import transaction

    from webapp.analysis import verdicts

    runs, job = history.runs, history.job
    newest, middle = runs[-1], runs[len(runs) // 2]

    def judge() -> None:
        with transaction.atomic():
            verdicts.judge(newest)

    pages = len(runs) // 50
    yield "the home page", history.page("/")
    yield "the jobs", history.page("/jobs/")
    yield "the runs", history.page("/runs/")
    yield "the job", history.page(f"/jobs/{job.uuid}/")
    yield "the job, its last page", history.page(f"/jobs/{job.uuid}/?page={pages}")
    yield "its newest run", history.page(f"/runs/{newest.pk}/")
    yield "a run in the middle", history.page(f"/runs/{middle.pk}/")
    yield "what if its newest run", history.what_if
    yield "a comparison", history.page(f"/compare/?a={middle.pk}&b={newest.pk}")
    yield "the verdict on the newest run", judge
    yield "the month's spend", history.page("/spend/")
    yield "the month's spend by tag", history.page("/spend/?by=tag&key=team")
    yield "a year's spend by month", history.page("/spend/?by=month")
    yield "the budgets", history.page("/budgets/")
    yield "the recommendations", history.page("/recommendations/")
    yield "the savings", history.page("/savings/")


def _timed(ask: Callable[[], None]) -> tuple[float, float]:
    """CPU and wall seconds."""
    began = time.process_time(), time.perf_counter()
    ask()
    return time.process_time() - began[0], time.perf_counter() - began[1]


if __name__ == "__main__":
    sys.exit(main())

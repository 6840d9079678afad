"""Rows as an analysis writes them, for tests of the pages."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.utils import timezone

from advisor.money import split_usd
from advisor.run_summary import RunSummary
from advisor.store.opening import open_store
from webapp.accounts.models import Membership, User, Workspace
from webapp.advice.models import Recommendation
from webapp.analysis.models import Analysis, CostPart, Judgement, LedgerEntry, Regression
from webapp.prices.models import Price
from webapp.runs.models import Artefact, Attempt, Job, Node, Run

USD_PER_HOUR = Decimal("0.085")


def workspace(name: str = "Vision team", **more: Any) -> Workspace:
    return Workspace.objects.create(name=name, **more)


def member(*workspaces: Workspace, email: str = "ada@example.org") -> User:
    user = User.objects.create_user(email, name=email.partition("@")[0].capitalize())
    for joined in workspaces:
        Membership.objects.create(workspace=joined, user=user, role=Membership.OWNER)
    return user


def job(of: Workspace, name: str = "vision/train.py", **more: Any) -> Job:
    return Job.objects.create(workspace=of, name=name, **more)


def summary(**changes: Any) -> RunSummary:
    """Return what the analysis of a run on one c5.large leaves in `Run.summary`."""
    analysed = RunSummary(
        data_wait_share=0.62,
        step_seconds_p50=0.21,
        steps=300,
        cpu_busy_p95_pct=51.0,
        cores_busy_p95=1.02,
        memory_p99_bytes=1.1 * 2**30,
        usd_per_hour=USD_PER_HOUR,
        price_source="AWS price list",
        node_count=1,
        instance_types=["c5.large"],
        phase_seconds={"initialise": 30.0, "train": 550.0, "finalise": 20.0},
    )
    return replace(analysed, **changes)


def run(of: Job, *, cost: str | None = "0.0142", seconds: float = 600, **more: Any) -> Run:
    """Make a finished run that began an hour ago, with the next number of its job; rows only."""
    of.runs_made += 1
    of.save()
    started_at = more.pop("started_at", timezone.now() - timedelta(hours=1))
    values: dict[str, Any] = {
        "number": of.runs_made,
        "state": Run.FINISHED,
        "started_at": started_at,
        "ended_at": started_at + timedelta(seconds=seconds),
        "created_at": started_at,
        "cost_usd": None if cost is None else Decimal(cost),
        "summary": summary(),
        "configuration": {"instance_type": "c5.large", "node_count": 1, "workers": 0},
        "parameters": {"workers": 0},
        "workload": {"entry_point": "train.py"},
        "work": {"samples": 19_200.0, "steps": 300.0},
    }
    return Run.objects.create(id=uuid4(), workspace=of.workspace, job=of, **values | more)


def node(of: Run, **more: Any) -> Node:
    attempt, _ = Attempt.objects.get_or_create(run=of, number=0)
    values: dict[str, Any] = {
        "machine_id": f"i-{uuid4().hex[:12]}",
        "hostname": "trainer-1",
        "provider": "aws",
        "service": "ec2",
        "region": "us-east-1",
        "instance_type": "c5.large",
        "vcpus": 2,
        "effective_cpus": 2.0,
        "memory_bytes": 4 * 2**30,
        "cpu_model": "Intel Xeon Platinum 8124M",
    }
    return Node.objects.create(attempt=attempt, **values | more)


def costed(of: Run) -> Run:
    """Give the run each node's cost on its day, by one dated price row, and their sum."""
    row, _ = Price.objects.get_or_create(
        provider="aws",
        service="ec2",
        region="us-east-1",
        instance_type="c5.large",
        valid_from=datetime(2024, 1, 1, tzinfo=UTC),
        defaults={"usd_per_hour": USD_PER_HOUR, "source": "AWS price list"},
    )
    length = of.duration or timedelta()
    hours = Decimal(str(length.total_seconds())) / 3600
    usd = (USD_PER_HOUR * hours).quantize(Decimal("1e-9"))
    nodes = list(Node.objects.filter(attempt__run=of))
    for held in nodes:
        day = (of.started_at or timezone.now()).date()
        microseconds = length // timedelta(microseconds=1)
        part = CostPart.objects.create(
            run=of, node=held, day=day, microseconds=microseconds, usd=usd
        )
        part.prices.add(row)
    of.cost_usd = usd * len(nodes)
    of.save()
    return of


def judgement(of: Run, rule: str = "input_bound", state: str = "fired", **more: Any) -> Judgement:
    fired = state == Judgement.FIRED
    values: dict[str, Any] = {
        "rule_version": 1,
        "values_hash": "0" * 16,
        "values": {},
        "numbers": {"values": {}, "windows": [[10.0, 50.0, ""]] if fired else [], "missing": []},
        "severity": "high" if fired else "low",
        "summary": "Training waited for its data in 62 % of the time.",
        "advice": "Load batches in worker processes." if fired else "",
        "waste_seconds_low": 200.0 if fired else 0.0,
        "waste_seconds_high": 340.0 if fired else 0.0,
        "waste_usd_low": Decimal("0.0060") if fired else None,
        "waste_usd_high": Decimal("0.0088") if fired else None,
        "is_provisional": False,
    }
    return Judgement.objects.create(run=of, rule=rule, state=state, **values | more)


def ledger(of: Run, **seconds: float) -> None:
    """Write the run's ledger on its first node, by label: the rest of its time is unclassified, and
    each second costs the same.
    """
    node = Node.objects.filter(attempt__run=of).order_by("pk")[0]
    whole = of.duration.total_seconds() if of.duration else 0.0
    parts = seconds | {"unclassified": whole - sum(seconds.values())}
    micros = {label: round(each * 1e6) for label, each in parts.items()}
    usd = split_usd(of.cost_usd, micros) if of.cost_usd is not None else {}
    LedgerEntry.objects.bulk_create(
        LedgerEntry(run=of, node=node, label=label, microseconds=us, usd=usd.get(label))
        for label, us in micros.items()
    )


def recommendation(of: Run, **more: Any) -> Recommendation:
    values: dict[str, Any] = {
        "dedupe_key": f"resize-{uuid4().hex[:6]}",
        "kind": "resize",
        "title": "Move from c5.large to t3.medium",
        "saving_low_usd": Decimal("0.0041"),
        "saving_usd": Decimal("0.0060"),
        "saving_high_usd": Decimal("0.0079"),
        "monthly_saving_usd": Decimal("1.86"),
        "risk": 1.2,
        "risk_dimension": "cpu",
        "effort": "low",
        "is_provisional": False,
    }
    return Recommendation.objects.create(job=of.job, run=of, **values | more)


def regression(since: Run, **more: Any) -> Regression:
    """Open since this run, which cost a tenth of a dollar more."""
    values: dict[str, Any] = {
        "confirmed_by": since,
        "last": since,
        "change": 0.25,
        "run_count": 2,
        "extra_usd": Decimal("0.1"),
    }
    return Regression.objects.create(job=since.job, since=since, **values | more)


def analysis(of: Run, **more: Any) -> Analysis:
    values: dict[str, Any] = {"wanted": 1, "done": 1, "is_final": True}
    return Analysis.objects.create(run=of, **values | more)


def artefact(of: Run, name: str = "rank0-step5.trace.json.gz", body: bytes = b"trace") -> Artefact:
    """Make an artefact with its content in the store."""
    sha256 = hashlib.sha256(body).hexdigest()
    key = f"runs/{of.pk}/artefacts/{sha256}"
    open_store(settings.OBJECTS_URL).put(key, body)
    return Artefact.objects.create(
        run=of, kind="profile", name=name, object_key=key, sha256=sha256, size_bytes=len(body)
    )

"""A run's rows as the plain facts that the advisor compares."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace

from advisor.run_facts import RunFacts
from webapp.runs.models import Run

MACHINES = ("instance_type", "node_count")
"""In a run's configuration, and facts of their own for the advisor."""


def run_facts(run: Run) -> RunFacts:
    """What the analysis has not found is left unknown; never 0."""
    summary, rate = run.summary, run.summary.get("usd_per_hour")
    return RunFacts(
        number=run.number,
        job=run.job.name,
        state=run.state,
        instance_types=tuple(summary.get("instance_types") or ()),
        node_count=summary.get("node_count") or 0,
        usd_per_hour=None if rate is None else Decimal(rate),
        duration_seconds=run.duration.total_seconds() if run.duration else None,
        cost_usd=run.cost_usd,
        work=run.work,
        workload=run.workload,
        configuration={k: v for k, v in run.configuration.items() if k not in MACHINES},
        parameters=run.parameters,
        figures=SimpleNamespace(**summary),
        phase_seconds=summary.get("phase_seconds") or {},
        quality=run.metrics,
    )

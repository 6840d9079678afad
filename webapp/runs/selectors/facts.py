"""A run's rows as the plain facts that the advisor compares."""

from __future__ import annotations

from decimal import Decimal

from advisor.run_facts import RunFacts
from webapp.runs.models import Run


def run_facts(run: Run) -> RunFacts:
    """None where something isn't known, never 0."""
    summary = run.summary
    usd_per_hour = summary.get("usd_per_hour")
    length = run.duration
    return RunFacts(
        number=run.number,
        state=run.state,
        instance_types=tuple(summary.get("instance_types") or ()),
        node_count=summary.get("node_count") or 1,
        usd_per_hour=Decimal(usd_per_hour) if usd_per_hour is not None else None,
        duration_seconds=Decimal(str(length.total_seconds())) if length is not None else None,
        cost_usd=run.cost_usd,
        work=run.work,
        data_wait_share=summary.get("data_wait_share"),
        phase_seconds=summary.get("phase_seconds") or {},
        configuration=run.configuration,
        workload={name: str(value) for name, value in run.workload.items()},
        gpu_busy_p95_pct=summary.get("gpu_busy_p95_pct"),
        cpu_busy_p95_pct=summary.get("cpu_busy_p95_pct"),
        quality=run.metrics,
        run_id=str(run.pk),
    )

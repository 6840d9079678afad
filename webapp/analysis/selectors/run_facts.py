"""A run's rows as the plain facts that the advisor compares."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace

from advisor.comparison.run_facts import RunFacts
from webapp.analysis.selectors.completeness import Completeness
from webapp.runs.models import Run

MACHINES = ("instance_type", "node_count")
"""Keys of a run's configuration that the advisor takes as separate facts."""


def run_facts(run: Run, completeness: Completeness) -> RunFacts:
    """Return the run's facts. Figures that the analysis doesn't have stay unknown, never 0."""
    summary = run.summary
    return RunFacts(
        number=run.number,
        job=run.job.name,
        state=run.state,
        instance_types=tuple(summary.instance_types),
        node_count=summary.node_count or 0,
        usd_per_hour=summary.usd_per_hour,
        duration_seconds=run.duration.total_seconds() if run.duration else None,
        cost_usd=run.cost_usd,
        electricity_usd=_electricity_usd(run),
        basis=summary.basis,
        work=run.work,
        workload=run.workload,
        configuration={k: v for k, v in run.configuration.items() if k not in MACHINES},
        parameters=_settings(run),
        figures=SimpleNamespace(**vars(summary), metric_progress=run.metric_progress),
        phase_seconds=summary.phase_seconds,
        quality=run.metrics,
        incomplete_because=completeness.because,
    )


def _electricity_usd(run: Run) -> Decimal:
    """Return the electricity in the run's cost; 0 if no rate has a price for it, or no power was
    measured.
    """
    electricity = run.summary.electricity
    return (electricity and electricity.usd) or Decimal(0)


def _settings(run: Run) -> dict[str, object]:
    """Return the parameters, further options of the command line, and the commit."""
    options = {
        name: value
        for name, value in command_options(run.command).items()
        if name.lstrip("-").replace("-", "_") not in run.parameters
    }
    commit = run.git.get("commit")
    return {**run.parameters, **options, **({"git commit": commit[:10]} if commit else {})}


def command_options(command: list[str]) -> dict[str, str]:
    """Return the options of a command: `--name value` and `--name=value`; an option without a value
    is `given`.
    """
    options = {}
    for word, following in zip(command, [*command[1:], "--"], strict=False):
        name, is_joined, value = word.partition("=")
        if not name.startswith("--") or name == "--":
            continue
        options[name] = value if is_joined else following
        if not is_joined and following.startswith("--"):
            options[name] = "given"
    return options

"""The probes of a job, as its page and their own pages show them."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.measurements import scope
from webapp.measurements.selectors.evidence import MeasurementEvidence, evidence_of
from webapp.runs.models import Job, Run

MOST_PROBES = 20
UNREAD = ("command", "git", "parameters", "workload", "metrics", "metric_progress")
"""Columns that lists of runs don't show, so they aren't loaded."""
PACES = {
    "loader": "The data loader set the pace.",
    "gpu": "The GPU set the pace.",
    "cpu": "The CPU set the pace.",
    "unknown": "What set the pace is unknown: the loop's waits for data weren't recorded.",
}


@dataclass(frozen=True)
class ProbeLine:
    """One probe with its measurement; None if it isn't measured."""

    run: Run
    measured: MeasurementEvidence | None

    @property
    def pace(self) -> str:
        return PACES[self.measured.row.pace] if self.measured else ""

    @property
    def machine(self) -> str:
        """Return what the probe ran on: the GPUs, or else the instance type."""
        row = self.measured.row if self.measured else None
        types = ", ".join(self.run.summary.instance_types)
        return f"{row.gpus} × {row.gpu}, {types}" if row and row.gpu else types

    @property
    def why_not(self) -> str:
        """Return why the probe is no evidence for its job, in words; empty if it is."""
        if self.measured:
            return self.measured.refused_because
        if self.run.has_ended:
            return "not measured: the command failed or too few steps were seen"
        return "not measured yet"


def probe_lines(job: Job) -> list[ProbeLine]:
    """Return the newest probes, newest first."""
    probes = list(scope.probes_of(job).defer(*UNREAD)[:MOST_PROBES])
    if not probes:
        return []
    known = {each.row.run_id: each for each in evidence_of(job)}
    return [ProbeLine(run, known.get(run.pk)) for run in probes]


def probe_line(run: Run) -> ProbeLine | None:
    """Return the probe, or None for an ordinary run."""
    if not run.is_probe:
        return None
    found = (each for each in evidence_of(run.job) if each.row.run_id == run.pk)
    return ProbeLine(run, next(found, None))

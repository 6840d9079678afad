"""Runs compared by the advisor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.comparison.compare import Comparison, compare
from advisor.comparison.several import RunsComparison, compare_several
from webapp.analysis.selectors.completeness import Completeness, completeness_of
from webapp.analysis.selectors.job_metrics import job_metrics
from webapp.analysis.selectors.run_facts import run_facts
from webapp.runs.models import Run

TWO_JOBS = "These runs belong to two jobs, so the difference is not a saving."
SEVERAL_JOBS = "These runs belong to several jobs, so no difference is a saving."


@dataclass(frozen=True)
class ComparedRuns:
    """Two compared runs, of which `a` is taken as the earlier one. The URL can swap the two."""

    a: Run
    b: Run
    result: Comparison
    completeness: tuple[Completeness, Completeness]
    """The completeness of `a` and `b`."""

    @property
    def warnings(self) -> list[str]:
        """The advisor's caveats, and those that need the rows."""
        jobs = [] if self.are_of_one_job else [TWO_JOBS]
        return [*jobs, *self.result.warnings]

    @property
    def are_of_one_job(self) -> bool:
        return self.a.job_id == self.b.job_id


def compare_runs(a: Run, b: Run) -> ComparedRuns:
    """Compare two runs by the metrics' settings of `b`'s job."""
    known = completeness_of([a, b])
    both = known[a.pk], known[b.pk]
    result = compare(run_facts(a, both[0]), run_facts(b, both[1]), job_metrics(a, b))
    return ComparedRuns(a, b, result, both)


def compared_several(runs: Sequence[Run]) -> RunsComparison:
    """Compare three or more runs, each with the first; by the metrics' settings of the last one's
    job.
    """
    known = completeness_of(runs)
    facts = [run_facts(run, known[run.pk]) for run in runs]
    return compare_several(facts, job_metrics(runs[0], runs[-1]))

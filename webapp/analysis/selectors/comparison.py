"""Two runs compared by the advisor."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.comparison.compare import Comparison, compare
from webapp.analysis.selectors.run_facts import run_facts
from webapp.runs.models import Run

TWO_JOBS = "These runs belong to two jobs, so the difference is not a saving."


@dataclass(frozen=True)
class ComparedRuns:
    """`a` is taken as the earlier run. The URL can swap the two."""

    a: Run
    b: Run
    result: Comparison

    @property
    def warnings(self) -> list[str]:
        """The advisor's caveats, and those that need the rows."""
        jobs = [] if self.are_of_one_job else [TWO_JOBS]
        return [*jobs, *self.result.warnings]

    @property
    def are_of_one_job(self) -> bool:
        return self.a.job_id == self.b.job_id


def compared(a: Run, b: Run) -> ComparedRuns:
    return ComparedRuns(a, b, compare(run_facts(a), run_facts(b)))

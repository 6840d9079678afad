"""The parameters of a job, and whether each is part of the same work."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from advisor.successive.comparability import (
    BY_HISTORY,
    BY_NAME,
    BY_PERSON,
    IGNORED,
    LEARNT_FROM,
    TUNING,
    USUAL,
    WORK,
)
from webapp.analysis.successive.comparability import chosen_roles, roles
from webapp.runs.models import Job, Run

TITLES = {WORK: "Same work", TUNING: "Tuning", IGNORED: "Ignored"}
WHY = {
    BY_NAME: "by its name",
    BY_HISTORY: "differs on every run",
    BY_PERSON: "set here",
    USUAL: "the default",
}
MOST_VALUES = 3
MOST_CHARACTERS = 60


@dataclass(frozen=True)
class ParameterRow:
    """Parameter of a job. `values` are the most frequent ones; `distinct` is the number of all."""

    name: str
    values: list[str]
    distinct: int
    run_count: int
    role: str
    why: str
    chosen: str
    """The role that a person chose; empty if nobody did."""

    @property
    def title(self) -> str:
        return TITLES[self.role]


def parameter_rows(job: Job) -> list[ParameterRow]:
    """Return the parameters by role and name: parts of the work first."""
    done = job.compared_runs.filter(state=Run.FINISHED, is_excluded=False).newest_first()
    runs = list(reversed(done.only("parameters", "summary")[:LEARNT_FROM]))
    chosen = chosen_roles(job)
    rows = []
    for name, role in roles(runs, chosen).items():
        values = Counter(str(run.parameters[name]) for run in runs if name in run.parameters)
        usual = [value[:MOST_CHARACTERS] for value, _ in values.most_common(MOST_VALUES)]
        rows.append(
            ParameterRow(
                name=name,
                values=usual,
                distinct=len(values),
                run_count=values.total(),
                role=role.role,
                why=WHY[role.why],
                chosen=chosen.get(name, ""),
            )
        )
    order = list(TITLES)
    return sorted(rows, key=lambda row: (order.index(row.role), row.name))

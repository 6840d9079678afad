"""Which runs of a job are compared, and what people set about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import transaction

from advisor.successive import comparability
from advisor.successive.comparability import LEARNT_FROM, Role, configuration_key, workload_key
from webapp.accounts import audit
from webapp.analysis.models import ParameterRole
from webapp.runs import locks
from webapp.runs.editing.changes import Actor
from webapp.runs.models import Job, Run

Keys = tuple[str, str]
"""Of the work and of the configuration. Runs with the same keys are compared."""


def roles(runs: Sequence[Run], chosen: Mapping[str, str]) -> dict[str, Role]:
    """The role of each parameter, told by the newest of the ordered runs."""
    return comparability.roles([run.parameters for run in runs[-LEARNT_FROM:]], chosen)


def chosen_roles(job: Job) -> dict[str, str]:
    """Parameter -> the role that people set."""
    return dict(ParameterRole.objects.filter(job=job).values_list("name", "role"))


def keys(run: Run, known: Mapping[str, Role]) -> Keys:
    return (
        workload_key(run.workload, run.parameters, known),
        configuration_key(run.configuration, known),
    )


@transaction.atomic
def choose(job: Job, by: Actor, wanted: Mapping[str, str]) -> bool:
    """Set the role of the job's parameters; empty: as its name and history tell. Those that aren't
    named stay. Returns whether anything changed; the caller judges the job's runs again."""
    held = locks.job(job.pk)
    before = chosen_roles(held)
    change = {n: (before.get(n, ""), r) for n, r in wanted.items() if before.get(n, "") != r}
    for name, (_, role) in change.items():
        if role:
            ParameterRole.objects.update_or_create(job=held, name=name, defaults={"role": role})
        else:
            ParameterRole.objects.filter(job=held, name=name).delete()
    if change:
        audit.record(held.workspace, by, "job.compared", held.name, change)
    return bool(change)

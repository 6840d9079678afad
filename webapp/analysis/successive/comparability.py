"""Decides which runs of a job are compared, by what is detected and what people set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import transaction

from advisor.successive import comparability
from advisor.successive.comparability import (
    LEARNT_FROM,
    USUAL,
    WORK,
    Role,
    configuration_key,
    workload_key,
)
from webapp.accounts import audit
from webapp.analysis.models import ParameterRole
from webapp.runs import locks
from webapp.runs.editing.changes import Actor
from webapp.runs.models import Job, Run

MOST_NAMED, MOST_CHARACTERS = 3, 60
Keys = tuple[str, str]
"""The keys of the work and of the configuration. Runs with the same keys are compared."""


def roles(runs: Sequence[Run], chosen: Mapping[str, str]) -> dict[str, Role]:
    """Return the role of each parameter, told by the newest of the ordered runs."""
    return comparability.roles([run.parameters for run in runs[-LEARNT_FROM:]], chosen)


def chosen_roles(job: Job) -> dict[str, str]:
    """Return the roles that people set, by parameter."""
    return dict(ParameterRole.objects.filter(job=job).values_list("name", "role"))


def keys(run: Run, known: Mapping[str, Role]) -> Keys:
    return (
        workload_key(run.workload, run.parameters, known),
        configuration_key(run.configuration, known),
    )


def why_not_compared(run: Run, before: Run, known: Mapping[str, Role]) -> str:
    """Return the fields by which a run isn't comparable with an earlier one."""
    machines = ("instance_type", "node_count", "purchase_option")
    one, other = (
        {
            **each.parameters,
            **each.workload,
            **{name: each.configuration.get(name) for name in machines},
        }
        for each in (before, run)
    )
    known = {**known, **{name: Role(WORK, USUAL) for name in (*run.workload, *before.workload)}}
    found = list(comparability.differences(one, other, known).items())
    shown = [f"{name} is {_value(b)} instead of {_value(a)}" for name, (a, b) in found[:MOST_NAMED]]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"Not compared with #{before.number}: {', '.join(shown)}{more}." if shown else ""


def _value(value: object) -> str:
    return "not set" if value is None else str(value)[:MOST_CHARACTERS]


@transaction.atomic
def choose(job: Job, by: Actor, wanted: Mapping[str, str]) -> bool:
    """Set the role of the job's parameters; an empty one follows its name and history. Those
    that aren't named stay. Returns whether anything changed; the caller judges the job's runs
    again."""
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

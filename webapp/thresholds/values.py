"""The thresholds that a job's runs are judged by: preset, then workspace, then job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from django.db.models import Q, QuerySet

from rules import materiality
from rules.parameter import Preset, Values
from rules.registry import all_rules, parameter_of
from webapp.accounts.models import Workspace
from webapp.database.prepared import Slot
from webapp.database.prepared import Values as Rows
from webapp.runs.models import Job
from webapp.thresholds.models import ParameterValue

Overrides = dict[str, dict[str, float]]
"""Rule id -> parameter -> value; parameters not named are inherited. `materiality.SHARED` in place
of a rule's id: of all rules."""


def set_by(workspace: Workspace, job: Job | None = None) -> Overrides:
    """Return the values that the workspace sets itself, or the job.

    Values that a rule no longer knows or allows are ignored: a release may remove a parameter.
    """
    return _overrides(workspace, [None if job is None else job.pk])[0]


def values_of(workspace: Workspace, job: Job | None = None) -> dict[str, Values]:
    """Return all values of each rule, for the job or, without one, the workspace."""
    layers = _overrides(workspace, [None] if job is None else [None, job.pk])
    return resolve_values(cast(Preset, workspace.preset), layers)


def _overrides(workspace: Workspace, jobs: Sequence[int | None]) -> list[Overrides]:
    """Return what the workspace sets for all of its jobs (None), for one of them, or both."""
    layers: dict[int | None, Overrides] = {job: {} for job in jobs}
    named = next((job for job in jobs if job is not None), None)
    for job, rule, name, value in _rows(workspace=workspace.pk, job=named):
        if job in layers and _is_allowed(rule, name, value):
            layers[job].setdefault(rule, {})[name] = value
    return list(layers.values())


@Rows
def _rows() -> QuerySet[ParameterValue, tuple[Any, ...]]:
    """Return the parameter rows of the workspace, and of one of its jobs."""
    job = Q(job=None) | Q(job=Slot("job", Job._meta.pk))
    rows = ParameterValue.objects.filter(job, workspace=Slot("workspace", Workspace._meta.pk))
    return rows.values_list("job_id", "rule", "name", "value")


def resolve_values(preset: Preset, layers: Iterable[Overrides]) -> dict[str, Values]:
    """Return the preset's values, overridden by each layer in turn; the floor of all rules as
    well.
    """
    layers = list(layers)
    floor = {each.name: each.of_preset(preset) for each in materiality.PARAMETERS}
    for layer in layers:
        floor |= layer.get(materiality.SHARED, {})
    values_by_rule: dict[str, Values] = {materiality.SHARED: floor}
    for rule in all_rules().values():
        values = rule.preset_values(preset)
        for layer in layers:
            shared = layer.get(materiality.SHARED, {}) if materiality.has_floor(rule) else {}
            values |= shared | layer.get(rule.id, {})
        values_by_rule[rule.id] = values
    return values_by_rule


def _is_allowed(rule: str, name: str, value: float) -> bool:
    try:
        parameter_of(rule, name).check(value)
    except (KeyError, ValueError):
        return False
    return True

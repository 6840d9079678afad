"""Saves presets and thresholds: rows, an audit entry, and the runs to judge again."""

from __future__ import annotations

from django.db import transaction

from webapp.accounts import audit
from webapp.accounts.models import Token, User, Workspace
from webapp.rulebook import rejudging
from webapp.runs.models import Job
from webapp.thresholds.models import ParameterValue
from webapp.thresholds.values import Overrides, set_by


@transaction.atomic
def save(
    workspace: Workspace, job: Job | None, actor: User | Token, preset: str | None, own: Overrides
) -> bool:
    """Set the values of the job or, without a job, of the workspace and its preset (None: keep it).
    Returns False if nothing changed."""
    held = Workspace.objects.select_for_update().get(pk=workspace.pk)
    change = _values(set_by(held, job), own)
    if job is None and preset is not None and held.preset != preset:
        change["preset"] = (held.preset, preset)
        held.preset = preset
        held.save(update_fields=["preset"])
    if not change:
        return False
    _write(held, job, own)
    audit.record(held, actor, "rules.changed", job.name if job else held.name, change)
    rejudging.queue_rejudging(held)
    return True


def _values(before: Overrides, after: Overrides) -> dict[str, tuple[object, object]]:
    """Return (before, after) by `rule.parameter`; None means inherited."""
    old, new = _flat(before), _flat(after)
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return {name: (old.get(name), new.get(name)) for name in names}


def _flat(overrides: Overrides) -> dict[str, float]:
    return {
        f"{rule}.{name}": value
        for rule, values in overrides.items()
        for name, value in values.items()
    }


def _write(workspace: Workspace, job: Job | None, own: Overrides) -> None:
    ParameterValue.objects.filter(workspace=workspace, job=job).delete()
    ParameterValue.objects.bulk_create(
        ParameterValue(workspace=workspace, job=job, rule=rule, name=name, value=value)
        for rule, values in own.items()
        for name, value in values.items()
    )

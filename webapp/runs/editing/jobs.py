"""Edits a job: its name, the default owner and tags of its runs, and how it judges metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q

from advisor.comparison.job_metrics import as_lines, from_document
from webapp.accounts import audit
from webapp.runs import locks, run_values
from webapp.runs.editing.changes import Actor, Change, apply, changes
from webapp.runs.models import Job
from webapp.runs.signals import metrics_set

FIELDS = ("name", "owner", "tags", "metrics")


class NameTakenError(ValueError):
    """Another job of the workspace has this name, or had it first. The message says which."""


@transaction.atomic
def edit(job: Job, by: Actor, values: Mapping[str, Any]) -> Job:
    """Set the `FIELDS` in `values`. Agents keep sending the name that they know.

    Raises:
        NameTakenError: another job has the name.
    """
    held = locks.job(job.pk)
    change = changes(held, values)
    if not change:
        return held
    if "name" in change:
        _must_be_free(held, change["name"][1])
    apply(held, change)
    try:
        with transaction.atomic():
            held.save(update_fields=[*change])
    except IntegrityError:
        # A run has just arrived with this name.
        _must_be_free(held, held.name)
        raise
    if "tags" in change:
        before, after = change["tags"]
        run_values.write_tags_of_job(held, {*before, *after})
    if "metrics" in change:
        metrics_set.send(sender=Job, job=held)
    audit.record(held.workspace, by, "job.edited", held.name, _as_people_write(change))
    return held


def _as_people_write(change: Change) -> Change:
    """Return the change with the settings of metrics as the form's lines."""
    if "metrics" not in change:
        return change
    before, after = (as_lines(from_document(document)) for document in change["metrics"])
    return change | {"metrics": (before, after)}


def _must_be_free(job: Job, name: str) -> None:
    """Raise `NameTakenError` if another job has the name. Names and keys share one namespace, so
    that each finds exactly one job.
    """
    others = Job.objects.filter(workspace=job.workspace_id).exclude(pk=job.pk)
    taken = others.filter(Q(name=name) | Q(key=name)).select_related("merged_into").first()
    if taken is not None:
        raise NameTakenError(_why(taken, name))


def _why(taken: Job, name: str) -> str:
    if taken.merged_into is not None:
        return f"{name} is the name of a job that was merged into {taken.merged_into}."
    if taken.deleted_at is not None:
        return f"{name} is the name of a deleted job."
    if taken.name == name:
        return f"Another job is named {name}. Merge the two instead?"
    return f"Agents send the runs of {taken} under the name {name}."

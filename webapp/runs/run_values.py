"""Keeps the values by which runs are found in step with the columns that hold them in full."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.db.models import QuerySet

from webapp.runs.models import Job, Run, RunField, RunValue
from webapp.runs.models.values import MOST_KEY_CHARS, MOST_TEXT_CHARS

MACHINE, NODES, DURATION = "machine", "nodes", "duration"
"""The figures: names of the instance types, number of nodes, seconds from start to end."""
AT_ONCE = 500
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_OF_KINDS = {"parameters", "metrics", "tags"}
Place = tuple[str, str]
"""The kind and the key of a field."""


class Value(NamedTuple):
    """The part of a value that is stored and looked for."""

    number: float | None
    text: str


def to_value(given: object) -> Value:
    """Return what is stored of a value: text that looks like a finite number is one, too."""
    text = given if isinstance(given, str) else json.dumps(given, default=str)
    text = text.replace("\0", "")[:MOST_TEXT_CHARS]
    return Value(to_number(text), text)


def to_number(text: str) -> float | None:
    """Return the finite number that the text is, or None."""
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None


def values_of(run: Run) -> dict[Place, Value]:
    """Return the run's values. A tag that only its job has counts as the run's own."""
    of_kinds: dict[str, Mapping[str, Any]] = {
        RunField.PARAMETER: run.parameters,
        RunField.METRIC: run.metrics,
        RunField.TAG: run.all_tags,
        RunField.FIGURE: _figures(run),
    }
    return {
        (kind, key.replace("\0", "")[:MOST_KEY_CHARS]): to_value(given)
        for kind, values in of_kinds.items()
        for key, given in values.items()
        if given is not None
    }


def _figures(run: Run) -> dict[str, Any]:
    """Return the figures that are known; those of machines come with the first analysis."""
    machines = run.summary.instance_types or [run.configuration.get("instance_type")]
    known = {
        MACHINE: ", ".join(name for name in machines if name),
        NODES: run.summary.node_count,
        DURATION: run.duration.total_seconds() if run.duration else None,
    }
    return {key: value for key, value in known.items() if value}


def write_values(runs: Sequence[Run]) -> None:
    """Write what has changed of the values of these runs. Call in the transaction that writes the
    runs.
    """
    wanted = {run: values_of(run) for run in runs}
    fields = _fields({(run.workspace_id, *place) for run in runs for place in wanted[run]})
    now = {
        (run.pk, fields[run.workspace_id, *place]): value
        for run, values in wanted.items()
        for place, value in values.items()
    }
    rows = RunValue.objects.filter(run__in=runs)
    columns = rows.values_list("pk", "run_id", "field_id", "number", "text")
    known = {(run, field): (pk, Value(number, text)) for pk, run, field, number, text in columns}
    _delete([pk for key, (pk, value) in known.items() if now.get(key) != value])
    same = {key for key, (_, value) in known.items() if now.get(key) == value}
    _insert((field, run, value) for (run, field), value in now.items() if (run, field) not in same)


def write_after_save(instance: Run, update_fields: Iterable[str] | None, **_: Any) -> None:
    """Write the values of a run that was saved, if its parameters, metrics or tags were. Receives
    Django's `post_save`.
    """
    if update_fields is None or _OF_KINDS & set(update_fields):
        write_values([instance])


def write_tags_of_job(job: Job, keys: Iterable[str]) -> None:
    """Write again the values of these tags of the job's runs, which have them from the job unless
    they have their own.
    """
    fields = _fields({(job.workspace_id, RunField.TAG, key) for key in keys})
    for (_, _, key), field_id in fields.items():
        without: QuerySet[Run] = Run.objects.filter(job=job).exclude(tags__has_key=key)
        RunValue.objects.filter(field_id=field_id, run__in=without).delete()
        if key in job.tags:
            value = to_value(job.tags[key])
            ids = without.values_list("pk", flat=True)
            _insert((field_id, run_id, value) for run_id in ids.iterator())


def _fields(places: set[tuple[int, str, str]]) -> dict[tuple[int, str, str], int]:
    """Return the ids of fields by workspace, kind and key, made if they are new."""
    known = _known_fields(places)
    new = sorted(places - known.keys())
    if not new:
        return known
    made = [RunField(workspace_id=of, kind=kind, key=key) for of, kind, key in new]
    RunField.objects.bulk_create(made, ignore_conflicts=True, batch_size=AT_ONCE)
    return known | _known_fields(set(new))


def _known_fields(places: set[tuple[int, str, str]]) -> dict[tuple[int, str, str], int]:
    if not places:
        return {}
    workspaces, _, keys = (set(column) for column in zip(*places, strict=True))
    rows = RunField.objects.filter(workspace__in=workspaces, key__in=keys)
    columns = rows.values_list("workspace_id", "kind", "key", "pk")
    found = {(of, kind, key): pk for of, kind, key, pk in columns}
    return {place: pk for place, pk in found.items() if place in places}


def _delete(ids: Sequence[int]) -> None:
    for start in range(0, len(ids), AT_ONCE):
        RunValue.objects.filter(pk__in=ids[start : start + AT_ONCE]).delete()


def _insert(rows: Iterator[tuple[int, Any, Value]]) -> None:
    made = (RunValue(field_id=f, run_id=r, number=v.number, text=v.text) for f, r, v in rows)
    RunValue.objects.bulk_create(made, batch_size=AT_ONCE)

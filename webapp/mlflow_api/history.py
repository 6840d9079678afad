"""All values of a metric, read again from the run's segments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow.compute as pc
from django.conf import settings

from advisor import mlflow_names
from advisor.mlflow_names import MetricPlace, place_of
from advisor.store.opening import open_store
from advisor.store.reading import NodeReader
from webapp.mlflow_api.models import TrackedRun
from webapp.runs.history import node_histories

Point = dict[str, Any]
_SLACK = timedelta(hours=1)


def points(tracked: TrackedRun, key: str) -> list[Point]:
    """Return the values as `{key, value, timestamp, step}`, in the order of their times.

    The same point is one, as in MLflow's server: clients log the metrics of a run again for each
    model that they save.
    """
    place = place_of(key)
    found = _events(tracked, key) if place is None else _samples(tracked, key, place)
    distinct = {(each["timestamp"], each["step"], str(each["value"])): each for each in found}
    return sorted(distinct.values(), key=lambda point: (point["timestamp"], point["step"]))


def _readers(tracked: TrackedRun) -> Iterator[tuple[NodeReader, list[int]]]:
    run = tracked.run
    if run.started_at is None or run.ended_at is None:
        return
    store = open_store(settings.OBJECTS_URL)
    for node in node_histories(run):
        reader = NodeReader(store, node)
        yield reader, reader.hours(run.started_at - _SLACK, run.ended_at + _SLACK)


def _events(tracked: TrackedRun, key: str) -> Iterator[Point]:
    for reader, hours in _readers(tracked):
        for hour in hours:
            table = reader.events(hour)[0]
            metrics = table.filter(pc.equal(table["kind"], "metric"))
            for text in metrics["data"].to_pylist():
                data = json.loads(text)
                if data.get("name") == key and "timestamp" in data:
                    value, step = float(data["value"]), data.get("step") or 0
                    yield _point(key, value, data["timestamp"], step)


def _samples(tracked: TrackedRun, key: str, place: MetricPlace) -> Iterator[Point]:
    """Yield the points of an agent's own series, if the agent measures the machine. Clients count
    their samples; the store doesn't, so the steps are those of the times.
    """
    times: dict[int, float] = {}
    for reader, hours in _readers(tracked):
        for hour in hours:
            for ticks in reader.ticks(hour, [place.series])[0]:
                if (column := ticks.columns.get(place.series)) is None:
                    continue
                known = np.flatnonzero(column.known)
                values = column.values[known] / place.factor
                times |= dict(zip(ticks.times_ms[known].tolist(), values.tolist(), strict=True))
    for step, (at_ms, value) in enumerate(sorted(times.items())):
        yield _point(key, round(value, 6), at_ms, step)


def _point(key: str, value: float, timestamp_ms: int, step: int) -> Point:
    return {
        "key": key,
        "value": mlflow_names.to_json_number(value),
        "timestamp": timestamp_ms,
        "step": step,
    }

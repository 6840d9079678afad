"""One run of an MLflow server, as `trimtab import mlflow+URL` saves it.

`mlflow-run.json` has the run and the name of its experiment, as MLflow's REST API answers them;
each file in `metrics/` a part of one metric's history.
https://mlflow.org/docs/latest/api_reference/rest-api.html
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from advisor import mlflow_names
from advisor.importers.json_text import parse_json
from advisor.importers.recording import (
    Happening,
    Labels,
    NotImportableError,
    Part,
    RecordedNode,
    Samples,
    Whole,
)
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts, to_printable_name
from advisor.importers.tally import Operator, Tally

FORMAT = "MLflow run"
_RUN = "mlflow-run.json"
_MOST_RUN_BYTES, _MOST_BYTES = 16 * 1024 * 1024, 64 * 1024 * 1024
_MOST_VALUES = 3_000_000
_MOST_NODES = 256
_MOST_TAGS = 200
_EARLIEST_MS, _LATEST_MS = 1_262_304_000_000, 4_102_444_800_000
"""2010 to 2099."""
_SLACK_MS, _MOST_MS = 3_600_000, 30 * 86_400_000
"""Metrics may be a little before the start, as clients say their times."""
_ONLY_NODE = "machine"

Values = dict[int, float]
"""Unix milliseconds -> value."""


def recognises(source: Source) -> bool:
    return _run_path(source) is not None


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> MlflowRecording:
    """Open the folder.

    Raises:
        NotImportableError: it has no run that began, or too many values.
    """
    del stated
    return MlflowRecording(source, tally)


class MlflowRecording:
    """A run's metrics and system metrics. See `recording.Recording`."""

    format, training_job, provider, owns_machine = FORMAT, "", "", False

    def __init__(self, source: Source, tally: Tally) -> None:
        self._tally, self._left = tally, _MOST_VALUES
        self.operators: list[Operator] = []
        self.operator_times: dict[str, Any] = {}
        self.statistics: dict[str, Any] = {}
        document = _document(source, _run_path(source) or _RUN, _MOST_RUN_BYTES)
        run = _part(document, "run")
        self._info, data = _part(run, "info"), _part(run, "data")
        self.job = to_printable_name(_text(document.get("experiment")))
        self.state = self._state()
        parameters, tags = _pairs(data.get("params")), _pairs(data.get("tags"))
        self.facts, self.labels = _facts(tags), _labels(parameters, tags)
        self._series: dict[str, dict[str, Values]] = defaultdict(lambda: defaultdict(dict))
        self._metrics: list[Happening] = []
        for path in source.sizes:
            if path.endswith(".json") and "metrics/" in path:
                self._read(_document(source, path, _MOST_BYTES), path)
        self._samples = {name: _samples(every) for name, every in self._series.items()}
        self.nodes = self._nodes()

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        samples = self._samples.get(node.name)
        if samples is not None:
            known = sum(int(np.isfinite(each).sum()) for each in samples.columns.values())
            self._tally.take("samples", known)
            yield samples
        if node is self.nodes[0]:
            self._tally.take("metrics", len(self._metrics))
            yield from self._metrics

    def _state(self) -> str:
        status = self._info.get("status")
        if status not in mlflow_names.STATES:
            self._tally.note(
                "The run hadn't ended when it was fetched. It counts as finished at its last "
                "metric."
            )
        return mlflow_names.STATES.get(_text(status), "finished")

    def _nodes(self) -> list[RecordedNode]:
        start, end = _time(self._info.get("start_time")), _time(self._info.get("end_time"))
        start = start or min((each.time_ms for each in self._metrics), default=None)
        if start is None:
            raise NotImportableError("the run has no start time and no metric")
        known = [
            each for each in self._metrics if start - _SLACK_MS <= each.time_ms < start + _MOST_MS
        ]
        lost = len(self._metrics) - len(known)
        self._tally.skip("metrics", "a time before the run or 30 days after its start", lost)
        self._metrics = [replace(each, time_ms=max(each.time_ms, start)) for each in known]
        is_possible = end is not None and start <= end < start + _MOST_MS
        last = max([end if end and is_possible else start, *(e.time_ms for e in self._metrics)])
        names = sorted(self._samples) or [_ONLY_NODE]
        return [
            RecordedNode(name, start, last, gpus=_gpus(self._series.get(name, {})))
            for name in names
        ]

    def _read(self, document: dict[str, Any], path: str) -> None:
        """Read one part of a metric's history. Raises NotImportableError before there are too
        many.
        """
        key, points = _text(document.get("key")), document.get("metrics")
        if not key or not isinstance(points, list):
            self._tally.skip("files", "no part of a metric", 1, path)
            return
        self._left -= len(points)
        if self._left < 0:
            raise NotImportableError(f"more than {_MOST_VALUES:,} values of metrics")
        place = mlflow_names.place_of(key)
        broken = 0
        for point in points:
            at_ms, value = _point(point)
            if at_ms is None or value is None:
                broken += 1
            elif place is None:
                self._metrics.append(_happening(key, at_ms, value, point))
            else:
                self._add(place, at_ms, value)
        self._tally.skip("metrics", "no possible time or value", broken, path)

    def _add(self, place: mlflow_names.MetricPlace, at_ms: int, value: float) -> None:
        name = to_printable_name(place.node) or _ONLY_NODE
        if name not in self._series and len(self._series) >= _MOST_NODES:
            self._tally.skip("series", f"of more than {_MOST_NODES} machines", 1, name)
        elif math.isfinite(value) and abs(value) < 1e15:
            self._series[name][place.series][at_ms] = value * place.factor


def _run_path(source: Source) -> str | None:
    return next((path for path in source.sizes if path.rpartition("/")[2] == _RUN), None)


def _document(source: Source, path: str, most_bytes: int) -> dict[str, Any]:
    try:
        document = parse_json(source.read(path, most_bytes))
    except (ValueError, OSError):
        return {}
    return document if isinstance(document, dict) else {}


def _part(document: dict[str, Any], name: str) -> dict[str, Any]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _text(said: object) -> str:
    return said if isinstance(said, str) else ""


def _pairs(said: object) -> dict[str, str]:
    """Return the pairs of `[{"key": ..., "value": ...}]` as a mapping."""
    listed = said if isinstance(said, list) else []
    found = {
        to_printable_name(_text(each.get("key"))): _text(each.get("value"))
        for each in listed
        if isinstance(each, dict)
    }
    return {key: value for key, value in found.items() if key}


def _facts(tags: dict[str, str]) -> StatedFacts:
    """Return the facts of the machine."""
    said = {
        name: to_printable_name(tags.get(mlflow_names.OUR_TAGS + name, ""))
        for name in ("provider", "service", "region", "instance_type", "purchase_option")
    }
    return StatedFacts(**said)  # type: ignore[arg-type]


def _labels(parameters: dict[str, str], tags: dict[str, str]) -> Labels:
    shown = mlflow_names.shown_tags(tags)
    return Labels(
        parameters=mlflow_names.shown_parameters(dict(list(parameters.items())[:_MOST_TAGS])),
        tags={key: to_printable_name(value) for key, value in list(shown.items())[:_MOST_TAGS]},
    )


def _time(said: object) -> int | None:
    """Return a Unix time in milliseconds. Older servers write 64-bit numbers as texts."""
    try:
        at_ms = int(str(said))
    except ValueError:
        return None
    return at_ms if _EARLIEST_MS < at_ms < _LATEST_MS else None


def _point(point: Any) -> tuple[int | None, float | None]:
    """Time and value. NaN and infinities come as texts."""
    if not isinstance(point, dict) or isinstance(point.get("value"), bool):
        return None, None
    try:
        return _time(point.get("timestamp")), float(point["value"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None, None


def _happening(key: str, at_ms: int, value: float, point: dict[str, Any]) -> Happening:
    """Return the value as the wire has a metric (`trimtab.wire.Event`)."""
    step = point.get("step")
    is_step = isinstance(step, int) and not isinstance(step, bool) and abs(step) < 2**53
    data = {"rank": 0, "name": to_printable_name(key), "value": mlflow_names.to_json_number(value)}
    return Happening(at_ms, "metric", data | {"step": step if is_step else 0})


def _samples(every: dict[str, Values]) -> Samples:
    times: Whole = np.array(sorted({at for values in every.values() for at in values}), "int64")
    between_ms = int(np.median(np.diff(times))) if len(times) > 1 else 0
    cadence = mlflow_names.cadence_ms(between_ms) if between_ms else mlflow_names.DEFAULT_CADENCE_MS
    columns = {}
    for name, values in sorted(every.items()):
        column = np.array([values.get(int(at), math.nan) for at in times], dtype="float64")
        columns[name] = np.round(column) if name.endswith("_total") else column
    return Samples(cadence, times, columns)


def _gpus(every: dict[str, Values]) -> int:
    found = [
        int(name[3:].partition(".")[0]) + 1
        for name in every
        if name.startswith("gpu") and name[3:].partition(".")[0].isdecimal()
    ]
    return max(found, default=0)

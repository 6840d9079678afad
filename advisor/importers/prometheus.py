"""Answers of Prometheus to a range query for DCGM-exporter's metrics, saved as JSON.

https://prometheus.io/docs/prometheus/latest/querying/api/#range-queries; the metrics are those of
NVIDIA's dcgm-exporter (`DCGM_FI_DEV_GPU_UTIL{gpu="0", Hostname="node-1"}`). Several files, such as
one for each part of a long time, are one recording.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from advisor.importers.json_text import parse_json
from advisor.importers.recording import (
    NotImportableError,
    Part,
    RecordedNode,
    Samples,
    SamplesOnly,
    Whole,
    cadence,
)
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts, to_printable_name
from advisor.importers.tally import Tally

FORMAT = "Prometheus (DCGM exporter)"
_MOST_BYTES = 64 * 1024 * 1024
_MOST_FILES = 1_000
_MOST_NODES, _MOST_GPUS = 1_024, 64
_MOST_VALUES = 3_000_000
"""The most values of a recording: 300 MB while it is read; 24 GPUs with ten metrics each 15 s for
two days."""
_EARLIEST_SECONDS, _LATEST_SECONDS = 1_262_304_000, 4_102_444_800
"""2010 to 2099."""
_NAME = re.compile(r".*\.json(?:\.gz)?")
_HEAD = re.compile(rb'\{\s*"status"\s*:\s*"success"')
_MIB = 2.0**20
_SERIES: dict[str, tuple[str, float]] = {
    "DCGM_FI_DEV_GPU_UTIL": ("busy_pct", 1.0),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("memory_controller_busy_pct", 1.0),
    "DCGM_FI_DEV_FB_USED": ("memory_used_bytes", _MIB),
    "DCGM_FI_DEV_POWER_USAGE": ("power_watts", 1.0),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("energy_joules_total", 0.001),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature_celsius", 1.0),
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock_mhz", 1.0),
    "DCGM_FI_DEV_MEM_CLOCK": ("memory_clock_mhz", 1.0),
    "DCGM_FI_PROF_SM_ACTIVE": ("sm_active_pct", 100.0),
    "DCGM_FI_PROF_SM_OCCUPANCY": ("sm_occupancy_pct", 100.0),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("tensor_active_pct", 100.0),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("dram_active_pct", 100.0),
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": ("fp64_active_pct", 100.0),
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE": ("fp32_active_pct", 100.0),
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": ("fp16_active_pct", 100.0),
}
"""The exporter's metric -> our series of the GPU, and the factor to its unit."""

Values = dict[int, float]
"""Unix milliseconds -> value."""


def recognises(source: Source) -> bool:
    """Return whether a file is a successful answer with series."""
    return any(_is_answer(source, path) for path in _candidates(source))


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> PrometheusRecording:
    """Open all answers of a folder.

    Raises:
        NotImportableError: none has a series of ours, or there are too many values.
    """
    del stated
    return PrometheusRecording(source, tally)


class PrometheusRecording(SamplesOnly):
    """The GPUs of some machines. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, tally: Tally) -> None:
        super().__init__(tally)
        self._tally, self._left = tally, _MOST_VALUES
        self._nodes: dict[str, dict[str, Values]] = defaultdict(lambda: defaultdict(dict))
        for path in _candidates(source):
            if _is_answer(source, path):
                self._read(source, path)
        known = {name: self._samples(every) for name, every in sorted(self._nodes.items())}
        self._parts = {name: part for name, part in known.items() if part is not None}
        if not self._parts:
            raise NotImportableError("no metric of DCGM-exporter with two times in the answers")
        self.nodes = [_node(name, part) for name, part in self._parts.items()]

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        part = self._parts[node.name]
        self._tally.take("samples", sum(int(np.isfinite(c).sum()) for c in part.columns.values()))
        yield part

    def _read(self, source: Source, path: str) -> None:
        for each in _series_of(source, path):
            metric = each.get("metric") if isinstance(each, dict) else None
            values = each.get("values") if isinstance(each, dict) else None
            if not isinstance(metric, dict) or not isinstance(values, list):
                self._tally.skip("series", "no range of values", 1, path)
            elif place := self._place(metric):
                host, name, factor = place
                self._add(self._nodes[host][name], values, factor, path)

    def _place(self, metric: dict[str, Any]) -> tuple[str, str, float] | None:
        """Return machine, series and factor; None if it is skipped, and said so."""
        labels = {name: value for name, value in metric.items() if isinstance(value, str)}
        name, gpu = labels.get("__name__", ""), labels.get("gpu", "")
        if name not in _SERIES:
            self._tally.skip("series", "no series of ours", 1, name)
        elif labels.get("GPU_I_ID"):
            self._tally.skip("series", "of a MIG slice", 1, f"{name}, gpu {gpu}")
        elif not (gpu.isascii() and gpu.isdecimal() and int(gpu[:4]) < _MOST_GPUS):
            self._tally.skip("series", "no label says which GPU", 1, name)
        else:
            series, factor = _SERIES[name]
            host = (
                to_printable_name(labels.get("Hostname") or labels.get("instance", "")) or "machine"
            )
            if host in self._nodes or len(self._nodes) < _MOST_NODES:
                return host, f"gpu{int(gpu)}.{series}", factor
            self._tally.skip("series", f"of more than {_MOST_NODES} machines", 1, host)
        return None

    def _add(self, known: Values, values: list[Any], factor: float, path: str) -> None:
        """Add the values to the known ones. Raises NotImportableError before there are too many."""
        self._left -= len(values)
        if self._left < 0:
            raise NotImportableError(
                f"more than {_MOST_VALUES:,} values. Ask Prometheus for a longer step or fewer "
                "machines."
            )
        broken = 0
        for pair in values:
            point = _point(pair, factor)
            if point is None:
                broken += 1
            else:
                known[point[0]] = point[1]
        self._tally.skip("samples", "no possible time or value", broken, path)

    def _samples(self, every: dict[str, Values]) -> Samples | None:
        """Return the samples, or None if there are fewer than two ticks."""
        times: Whole = np.array(sorted({at for values in every.values() for at in values}), "int64")
        if len(times) < 2:
            self._tally.skip("samples", "of a machine with fewer than two ticks", len(times))
            return None
        columns = {
            name: np.array([values.get(int(at), math.nan) for at in times], dtype="float64")
            for name, values in sorted(every.items())
        }
        return Samples(cadence(times), times, columns)


def _node(name: str, part: Samples) -> RecordedNode:
    gpus = {int(series.partition(".")[0].removeprefix("gpu")) for series in part.columns}
    first, last = int(part.times_ms[0]), int(part.times_ms[-1])
    return RecordedNode(name, first, last, gpus=max(gpus) + 1)


def _candidates(source: Source) -> Iterator[str]:
    return islice((path for path in source.sizes if _NAME.fullmatch(path)), _MOST_FILES)


def _is_answer(source: Source, path: str) -> bool:
    head = source.beginning(path)
    return _HEAD.match(head.lstrip()) is not None and b'"resultType"' in head


def _series_of(source: Source, path: str) -> list[Any]:
    try:
        document = parse_json(source.read(path, _MOST_BYTES))
        found = document["data"]["result"]
    except (ValueError, OSError, KeyError, TypeError):
        return []
    return found if isinstance(found, list) else []


def _point(pair: Any, factor: float) -> tuple[int, float] | None:
    """Return the time and value of `[Unix seconds, "value"]`, in which a value may be "NaN"."""
    try:
        at_seconds, said = pair
        at_seconds, value = float(at_seconds), float(said) * factor
    except (TypeError, ValueError, OverflowError):
        return None
    possible = _EARLIEST_SECONDS < at_seconds < _LATEST_SECONDS
    if not possible or not 0 <= value < 1e18:
        return None
    return round(at_seconds * 1000), round(value, 3)

"""DCGM fields of one GPU, kept as JSON: an object of columns of equal length.

`Timestamp` is in Unix milliseconds; the others are named `DCGMI - FIELD`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from advisor.importers.json_text import parse_json
from advisor.importers.recording import (
    Floats,
    NotImportableError,
    Part,
    RecordedNode,
    Samples,
    SamplesOnly,
    cadence,
)
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally

FORMAT = "DCGM"
_MOST_BYTES = 64 * 1024 * 1024
_MOST_FILES = 100
"""Read to find a recording."""
_EARLIEST_MS, _LATEST_MS = 1_262_304_000_000, 4_102_444_800_000
"""2010 to 2099."""
_PREFIX, _TIME = "DCGMI - ", "Timestamp"
_NAME = re.compile(r".*\.json(?:\.gz)?")
_SERIES: dict[str, tuple[str, float]] = {
    "GPU Utilization": ("busy_pct", 1.0),
    "Memory Copy Utilization": ("memory_controller_busy_pct", 1.0),
    "Power Usage": ("power_watts", 1.0),
    "Total Energy Consumption": ("energy_joules_total", 0.001),
    "SM Active": ("sm_active_pct", 100.0),
    "SN Actuie": ("sm_active_pct", 100.0),  # as one recorder spells it
    "SM Occupancy": ("sm_occupancy_pct", 100.0),
    "Tensor Active": ("tensor_active_pct", 100.0),
    "DRAM Active": ("dram_active_pct", 100.0),
    "FP64 Active": ("fp64_active_pct", 100.0),
    "FP32 Active": ("fp32_active_pct", 100.0),
    "FP16 Active": ("fp16_active_pct", 100.0),
}
"""DCGM's field -> our series of the GPU, and the factor to its unit."""


def recognises(source: Source) -> bool:
    """Return whether a file begins as such an object does."""
    return any(_is_recording(source, path) for path in _candidates(source))


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> DcgmRecording:
    """Open the first recording.

    Raises:
        NotImportableError: no file can be read.
    """
    del stated
    return DcgmRecording(source, tally)


class DcgmRecording(SamplesOnly):
    """One GPU. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, tally: Tally) -> None:
        super().__init__(tally)
        chosen, *others = (path for path in _candidates(source) if _is_recording(source, path))
        tally.skip("files", "a recording of another time; import it alone", len(others))
        self._samples = _samples(source, chosen, tally)
        times = self._samples.times_ms
        self.nodes = [RecordedNode("machine", int(times[0]), int(times[-1]))]

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        del node
        yield self._samples


def _candidates(source: Source) -> Iterator[str]:
    return islice((path for path in source.sizes if _NAME.fullmatch(path)), _MOST_FILES)


def _is_recording(source: Source, path: str) -> bool:
    document = _document(source, path)
    return _TIME in document and any(name.startswith(_PREFIX) for name in document)


def _document(source: Source, path: str) -> dict[str, Any]:
    """Return the file's object; empty if it can't be read, or is something else."""
    try:
        document = parse_json(source.read(path, _MOST_BYTES))
    except (ValueError, OSError):
        return {}
    return document if isinstance(document, dict) else {}


def _samples(source: Source, path: str, tally: Tally) -> Samples:
    document = _document(source, path)
    at_ms = _numbers(document[_TIME])
    possible = (at_ms > _EARLIEST_MS) & (at_ms < _LATEST_MS)
    rows = np.flatnonzero(possible)
    times, first = np.unique(at_ms[rows].astype("int64"), return_index=True)
    rows = rows[first]
    if len(times) < 2:
        raise NotImportableError("fewer than two ticks with a time")
    tally.skip("ticks", "no possible time, or that of another tick", len(at_ms) - len(times), path)
    columns: dict[str, Floats] = {}
    for name, values in document.items():
        if name == _TIME:
            continue
        known = _SERIES.get(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None
        if known is None:
            tally.skip("columns", "no series of ours", 1, name)
            continue
        numbers = _numbers(values)
        if len(numbers) != len(at_ms):
            tally.skip("columns", "another number of values than of times", 1, name)
            continue
        series, factor = known
        columns[f"gpu0.{series}"] = np.round(numbers[rows] * factor, 3)
        tally.take("samples", int(np.isfinite(numbers[rows]).sum()))
    return Samples(cadence(times), times, columns)


def _numbers(values: object) -> Floats:
    """Return the numbers, with NaN for what is no number."""
    every = values if isinstance(values, list) else []
    is_number = [isinstance(v, int | float) and not isinstance(v, bool) for v in every]
    kept = [
        v if good and abs(v) < 1e18 else np.nan for v, good in zip(every, is_number, strict=True)
    ]
    return np.array(kept, dtype="float64")

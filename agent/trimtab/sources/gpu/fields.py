"""Counters and gauges that NVML returns in one call to the driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from ctypes import c_void_p

from trimtab.sources.gpu import nvml
from trimtab.sources.procfile import TRAFFIC_STEP_BYTES, Reading, SeriesSpan, round_bytes

_ALL_LINKS = 0xFFFFFFFF
_PCIE_SENT, _PCIE_RECEIVED = 197, 198
_WRAPPING = {_PCIE_SENT, _PCIE_RECEIVED}
"""The counters that begin again at 4 GiB, whatever type they come in (an H200 with driver 580)."""
_WRAP = 2**32
_STEP_NS = 1_000_000


def _traffic(size_bytes: int) -> int:
    return round_bytes(size_bytes, TRAFFIC_STEP_BYTES)


def _duration_ns(duration_ns: int) -> int:
    return round_bytes(duration_ns, _STEP_NS)


_Field = tuple[int, int, str, Callable[[int], int]]
"""A field: NVML's field number, scope (a link), series, and conversion. Fields of one series are
summed."""

POWER_CAP: list[_Field] = [(74, 0, "throttled_power_cap_ns_total", _duration_ns)]
THROTTLED: list[_Field] = [
    (269, 0, "throttled_thermal_ns_total", _duration_ns),
    (270, 0, "throttled_thermal_ns_total", _duration_ns),
    (271, 0, "throttled_power_brake_ns_total", _duration_ns),
]
_OLDER_THERMAL: _Field = (75, 0, "throttled_thermal_ns_total", _duration_ns)
PCIE: list[_Field] = [
    (_PCIE_SENT, 0, "pcie_sent_bytes_total", _traffic),
    (_PCIE_RECEIVED, 0, "pcie_received_bytes_total", _traffic),
]
NVLINK: list[_Field] = [
    (138, _ALL_LINKS, "nvlink_sent_bytes_total", lambda kib: kib * 1024),
    (139, _ALL_LINKS, "nvlink_received_bytes_total", lambda kib: kib * 1024),
]
ERRORS: list[_Field] = [
    (3, 0, "ecc_corrected_errors_total", int),
    (4, 0, "ecc_uncorrected_errors_total", int),
]
REPLAYS: list[_Field] = [(94, 0, "pcie_replays_total", int)]
POWER_LIMIT: list[_Field] = [(190, 0, "power_limit_watts", lambda mw: round(mw / 1000))]


class Fields:
    """The fields that this GPU offers, determined at the first read."""

    def __init__(self, handle: c_void_p, wanted: list[_Field]) -> None:
        self._handle = handle
        self._fields = list(wanted)
        self._is_first = True
        self._counted: dict[int, int] = {}
        """The totals of fields that begin again."""

    def read(self) -> Reading:
        """Read the fields. Raises NvmlError; NOT_SUPPORTED if the GPU offers none of them."""
        return dict(self._read())

    def _read(self) -> dict[str, int]:
        if not self._fields:
            raise nvml.NvmlError(nvml.NOT_SUPPORTED)
        wanted = [(number, scope) for number, scope, _, _ in self._fields]
        values = nvml.fields(self._handle, wanted)
        if self._is_first:
            return self._only_offered(values)
        reading: dict[str, int] = {}
        for value, (_, _, name, converted) in zip(values, self._fields):
            if not value.answer:
                reading[name] = reading.get(name, 0) + converted(self._counted_on(value))
        return reading

    def _counted_on(self, value: nvml.FieldValue) -> int:
        number = value.count
        if value.number in _WRAPPING and number < _WRAP:
            known = self._counted.get(value.number, number)
            number = known + (number - known) % _WRAP
            self._counted[value.number] = number
        return number

    def _only_offered(self, values: Sequence[nvml.FieldValue]) -> dict[str, int]:
        """Return the fields that the GPU offers. A driver without the two thermal counters may
        offer one for both.
        """
        self._is_first = False
        had_thermal = any(name == _OLDER_THERMAL[2] for _, _, name, _ in self._fields)
        answers = zip(values, self._fields)
        self._fields = [each for value, each in answers if not value.answer]
        if had_thermal and all(name != _OLDER_THERMAL[2] for _, _, name, _ in self._fields):
            self._fields.append(_OLDER_THERMAL)
        return self._read()


class FieldCounters(Fields):
    """Counters that are read rarely: between two reads they are taken to have grown evenly."""

    def __init__(self, handle: c_void_p, wanted: list[_Field], spans: list[SeriesSpan]) -> None:
        super().__init__(handle, wanted)
        self._spans = spans
        self._before: tuple[int, dict[str, int]] = (0, {})

    def read(self) -> Reading:
        """Read the counters into `spans`. Raises NvmlError."""
        since_ns, before = self._before
        self._before = 0, {}
        counters, now_ns = self._read(), time.monotonic_ns()
        for name, value in counters.items():
            if name in before:
                self._spans.append(SeriesSpan(name, since_ns, now_ns, before[name], value))
        self._before = now_ns, counters
        return {}

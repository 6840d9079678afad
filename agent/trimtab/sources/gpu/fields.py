"""Counters and gauges that NVML returns in one call to the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml as nvml

from trimtab.sources.procfile import TRAFFIC_STEP_BYTES, Reading, rounded

_ALL_LINKS = 0xFFFFFFFF
_WRAPPING = {nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES}
"""They begin again at 4 GiB, whatever type they come in (an H200 with driver 580)."""
_WRAP = 2**32
_STEP_NS = 1_000_000


def _traffic(size_bytes: int) -> int:
    return rounded(size_bytes, TRAFFIC_STEP_BYTES)


def _duration_ns(duration_ns: int) -> int:
    return rounded(duration_ns, _STEP_NS)


_Field = tuple[int, int, str, Callable[[int], int]]
"""NVML's field number, scope (a link), series, and conversion. Fields of one series are summed."""

OFTEN: list[_Field] = [
    (nvml.NVML_FI_DEV_POWER_INSTANT, 0, "power_watts", lambda mw: round(mw / 1000)),
    (nvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 0, "energy_joules_total", lambda mj: mj // 1000),
    (nvml.NVML_FI_DEV_PERF_POLICY_POWER, 0, "throttled_power_cap_ns_total", _duration_ns),
    (
        nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
        0,
        "throttled_thermal_ns_total",
        _duration_ns,
    ),
    (
        nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
        0,
        "throttled_thermal_ns_total",
        _duration_ns,
    ),
    (
        nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
        0,
        "throttled_power_brake_ns_total",
        _duration_ns,
    ),
    (nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0, "pcie_sent_bytes_total", _traffic),
    (nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0, "pcie_received_bytes_total", _traffic),
    (
        nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        _ALL_LINKS,
        "nvlink_sent_bytes_total",
        lambda kib: kib * 1024,
    ),
    (
        nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        _ALL_LINKS,
        "nvlink_received_bytes_total",
        lambda kib: kib * 1024,
    ),
]
RARELY: list[_Field] = [
    (nvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, 0, "ecc_corrected_errors_total", int),
    (nvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 0, "ecc_uncorrected_errors_total", int),
    (nvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 0, "pcie_replays_total", int),
    (nvml.NVML_FI_DEV_POWER_CURRENT_LIMIT, 0, "power_limit_watts", lambda mw: round(mw / 1000)),
]
_OLDER_THERMAL: _Field = (
    nvml.NVML_FI_DEV_PERF_POLICY_THERMAL,
    0,
    "throttled_thermal_ns_total",
    _duration_ns,
)
_VALUES = {
    nvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    nvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    nvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    nvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    nvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    nvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}


class Fields:
    """The fields that this GPU offers, determined at the first read."""

    def __init__(self, handle: Any, wanted: list[_Field]) -> None:
        self._handle = handle
        self._fields = list(wanted)
        self._is_first = True
        self._counted: dict[int, int] = {}
        """What a field that begins again has come to."""

    def read(self) -> Reading:
        asked = [(number, scope) for number, scope, _, _ in self._fields]
        values = nvml.nvmlDeviceGetFieldValues(self._handle, asked) if asked else ()
        if self._is_first:
            return self._only_offered(values)
        reading: dict[str, int] = {}
        for value, (_, _, name, converted) in zip(values, self._fields):
            if value.nvmlReturn == nvml.NVML_SUCCESS:
                reading[name] = reading.get(name, 0) + converted(self._told(value))
        return dict(reading)

    def _told(self, value: Any) -> int:
        number = _number(value)
        if value.fieldId in _WRAPPING and number < _WRAP:
            known = self._counted.get(value.fieldId, number)
            number = known + (number - known) % _WRAP
            self._counted[value.fieldId] = number
        return number

    def _only_offered(self, values: Any) -> Reading:
        """A driver without the two thermal counters may offer one for both."""
        self._is_first = False
        answers = zip(values, self._fields)
        had_thermal = any(name == _OLDER_THERMAL[2] for _, _, name, _ in self._fields)
        self._fields = [each for value, each in answers if value.nvmlReturn == nvml.NVML_SUCCESS]
        if had_thermal and all(name != _OLDER_THERMAL[2] for _, _, name, _ in self._fields):
            self._fields.append(_OLDER_THERMAL)
        return self.read()


def _number(value: Any) -> int:
    return int(getattr(value.value, _VALUES[value.valueType]))

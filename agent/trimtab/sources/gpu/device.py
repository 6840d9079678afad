"""One GPU and its MIG slices, as NVML shows them.

Left out on purpose: PCIe throughput gauges (20 ms a call; the byte counters are exact), encoder
and decoder use, graphics clock. What a GPU doesn't offer is queried once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pynvml as nvml

from trimtab.sources.gpu import activity, fields
from trimtab.sources.gpu.inventory import Card
from trimtab.sources.procfile import MEMORY_STEP_BYTES, Reading, rounded

_LOST = {
    nvml.NVML_ERROR_UNINITIALIZED,
    nvml.NVML_ERROR_DRIVER_NOT_LOADED,
    nvml.NVML_ERROR_GPU_IS_LOST,
    nvml.NVML_ERROR_RESET_REQUIRED,
    nvml.NVML_ERROR_GPU_NOT_FOUND,
}
_NEVER = {
    nvml.NVML_ERROR_NOT_SUPPORTED,
    nvml.NVML_ERROR_NO_PERMISSION,
    nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    nvml.NVML_ERROR_DEPRECATED,
}
_SLOW_SECONDS, _RARE_SECONDS = 5.0, 30.0
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""The host's namespace. NVML reports process ids of the host, inside a container too."""


@dataclass
class _Part:
    """One NVML query. Its last answer is repeated until the next one."""

    ask: Callable[[], Reading]
    every_seconds: float = 0.0
    due: float = 0.0
    known: Reading = field(default_factory=dict)


class Parts:
    """The queries for the series of one entity."""

    def __init__(self, entity: str, parts: list[_Part]) -> None:
        self._entity = entity
        self._parts = parts

    def read(self) -> Reading:
        """Raises NVMLError if the GPU is gone."""
        now = time.monotonic()
        reading: Reading = {}
        for part in list(self._parts):
            if now >= part.due:
                part.due = now + part.every_seconds
                part.known = self._answer(part)
            reading.update(part.known)
        return {f"{self._entity}.{name}": value for name, value in reading.items()}

    def _answer(self, part: _Part) -> Reading:
        try:
            return part.ask()
        except nvml.NVMLError as error:
            if error.value in _LOST:
                raise
            if error.value in _NEVER:
                self._parts.remove(part)
            return {}


class Device:
    """Raises NVMLError if the GPU can't be opened: it is lost, or access is denied."""

    def __init__(self, number: int, pids: Callable[[], Collection[int]] | None) -> None:
        """`pids`: the process ids of the run on this machine."""
        self.number = number
        self.handle = nvml.nvmlDeviceGetHandleByIndex(number)
        slices = dict(_slices(self.handle))
        self.card = Card(
            model=_text(nvml.nvmlDeviceGetName(self.handle)),
            memory_bytes=_memory_size(self.handle),
            uuid=_text(nvml.nvmlDeviceGetUUID(self.handle)),
            slices=tuple(_text(nvml.nvmlDeviceGetUUID(each)) for each in slices.values()),
        )
        self._whole = Parts(f"gpu{number}", self._parts(pids))
        self._slices = [
            Parts(f"gpu{number}.mig{index}", self._slice_parts(handle))
            for index, handle in slices.items()
        ]

    def read(self) -> Reading:
        reading = self._whole.read()
        for each in self._slices:
            reading.update(each.read())
        return reading

    def _parts(self, pids: Callable[[], Collection[int]] | None) -> list[_Part]:
        handle = self.handle
        parts = [
            _Part(partial(_utilisation, handle)),
            _Part(BusySamples(handle).read),
            _Part(partial(_memory_used, handle)),
            _Part(partial(_clocks, handle)),
            _Part(partial(_power, handle)),
            _Part(fields.Fields(handle, fields.OFTEN).read),
            _Part(partial(_throttle_reasons, handle)),
            _Part(partial(_temperature, handle), _SLOW_SECONDS),
            _Part(partial(_link, handle), _RARE_SECONDS),
            _Part(fields.Fields(handle, fields.RARELY).read, _RARE_SECONDS),
        ]
        if pids is not None:
            parts.append(_Part(lambda: _tree_memory(handle, pids()), _SLOW_SECONDS))
        if activity.is_offered(handle):
            take = partial(nvml.nvmlGpmSampleGet, handle)
            parts.append(_Part(activity.Activity(take).read))
        return parts

    def _slice_parts(self, handle: Any) -> list[_Part]:
        """NVML doesn't report slice utilisation; GPM reports slice activity if it is offered."""
        parts = [_Part(partial(_memory_used, handle))]
        with suppress(nvml.NVMLError):
            instance = nvml.nvmlDeviceGetGpuInstanceId(handle)
            if activity.is_offered(self.handle):
                take = partial(nvml.nvmlGpmMigSampleGet, self.handle, instance)
                parts.append(_Part(activity.Activity(take).read))
        return parts


class BusySamples:
    """`busy_pct` from the driver's own samples, 1 to 6 a second, so that none is missed."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._seen_us = 0

    def read(self) -> Reading:
        kind = nvml.NVML_GPU_UTILIZATION_SAMPLES
        _, samples = nvml.nvmlDeviceGetSamples(self._handle, kind, self._seen_us)
        fresh = [sample for sample in samples if sample.timeStamp > self._seen_us]
        fresh = fresh if self._seen_us else fresh[-1:]
        if not fresh:
            return {}
        self._seen_us = max(sample.timeStamp for sample in fresh)
        mean = sum(sample.sampleValue.uiVal for sample in fresh) / len(fresh)
        return {"busy_pct": round(mean)}


def memory(handle: Any) -> Any:
    """Memory info, with the driver's reserved memory separate if the driver reports it."""
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
    except nvml.NVMLError as error:
        if error.value not in _NEVER:
            raise
        return nvml.nvmlDeviceGetMemoryInfo(handle)


def _memory_size(handle: Any) -> int:
    """0 if the GPU has no memory of its own."""
    try:
        return int(memory(handle).total)
    except nvml.NVMLError as error:
        if error.value not in _NEVER:
            raise
        return 0


def _slices(handle: Any) -> Iterator[tuple[int, Any]]:
    try:
        if not nvml.nvmlDeviceGetMigMode(handle)[0]:
            return
        most = nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except nvml.NVMLError as error:
        if error.value in _LOST:
            raise
        return
    for index in range(most):
        with suppress(nvml.NVMLError):
            yield index, nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)


def _utilisation(handle: Any) -> Reading:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return {"busy_pct": rates.gpu, "memory_controller_busy_pct": rates.memory}


def _memory_used(handle: Any) -> Reading:
    return {"memory_used_bytes": rounded(memory(handle).used, MEMORY_STEP_BYTES)}


def _clocks(handle: Any) -> Reading:
    return {
        "sm_clock_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
    }


def _power(handle: Any) -> Reading:
    return {"power_watts": round(nvml.nvmlDeviceGetPowerUsage(handle) / 1000)}


def _throttle_reasons(handle: Any) -> Reading:
    return {"throttle_reasons_bits": nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)}


def _temperature(handle: Any) -> Reading:
    return {"temperature_celsius": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)}


def _link(handle: Any) -> Reading:
    return {
        "pcie_generation_count": nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
        "pcie_lanes_count": nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
    }


def _tree_memory(handle: Any, pids: Collection[int]) -> Reading:
    """Unknown in a container with its own process ids, where none matches."""
    running = nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    ours = [process.usedGpuMemory for process in running if process.pid in pids]
    if None in ours or (not ours and os.readlink("/proc/self/ns/pid") != _FIRST_PID_NAMESPACE):  # noqa: PTH115
        return {}
    return {"tree_memory_used_bytes": rounded(sum(ours), MEMORY_STEP_BYTES)}


def _text(value: bytes | str) -> str:
    return (value.decode(errors="replace") if isinstance(value, bytes) else value)[:120]

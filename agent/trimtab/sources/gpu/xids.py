"""XID errors that the driver reports for its GPUs, which otherwise only root can read in dmesg."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pynvml as nvml

if TYPE_CHECKING:
    from trimtab.sources.gpu.device import Device

_MOST_AT_ONCE = 16


class Xids:
    """The errors since the last call; none if the driver doesn't report them."""

    def __init__(self) -> None:
        self._numbers: dict[int | None, int] = {}
        try:
            self._events: Any = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            self._events = None

    def watch(self, device: Device) -> None:
        try:
            if self._events is not None:
                kinds = nvml.nvmlEventTypeXidCriticalError
                nvml.nvmlDeviceRegisterEvents(device.handle, kinds, self._events)
                self._numbers[_address(device.handle)] = device.number
        except nvml.NVMLError:
            pass

    def news(self) -> Iterator[tuple[int | None, int]]:
        """The GPU's number (None: not known) and the XID."""
        if not self._numbers:
            return
        for _ in range(_MOST_AT_ONCE):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError:
                return
            yield self._numbers.get(_address(event.device)), int(event.eventData)


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value

"""XID errors that the driver reports for its GPUs, which otherwise only root can read in dmesg."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from trimtab.sources.gpu import nvml

if TYPE_CHECKING:
    from trimtab.sources.gpu.device import Device

_MOST_AT_ONCE = 16


class Xids:
    """The errors since the last call; none if the driver doesn't report them."""

    def __init__(self) -> None:
        self._numbers: dict[int | None, int] = {}
        self._events: nvml.XidEvents | None = None
        with suppress(nvml.NvmlError):
            self._events = nvml.XidEvents()

    def watch(self, device: Device) -> None:
        if self._events is not None:
            with suppress(nvml.NvmlError):
                self._events.watch(device.handle)
                self._numbers[device.handle.value] = device.number

    def news(self) -> Iterator[tuple[int | None, int]]:
        """Yield the GPU's number (None: not known) and the XID."""
        if self._events is None or not self._numbers:
            return
        for _ in range(_MOST_AT_ONCE):
            event = self._events.next()
            if event is None:
                return
            yield self._numbers.get(event[0]), event[1]

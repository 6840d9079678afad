"""The thread that reads NVML. It may hang at any line; its caller never does."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from trimtab.sources.gpu.inventory import Inventory
from trimtab.sources.gpu.outages import Outages
from trimtab.sources.procfile import Reading, SeriesSpan

if TYPE_CHECKING:
    from trimtab.sources.gpu.device import Device
    from trimtab.sources.gpu.xids import Xids

_QUICK_SECONDS = 0.02
_XID_SECONDS = 5.0
_LOADED_READS = 5


class GpuReader(threading.Thread):
    """Lists the GPUs, then reads all of them at each request."""

    def __init__(
        self,
        outages: Outages,
        inventory: Inventory,
        pids: Callable[[], Collection[int]] | None,
    ) -> None:
        super().__init__(name="trimtab-gpus", daemon=True)
        self._outages, self._inventory, self._pids = outages, inventory, pids
        self._asked, self._answered = threading.Event(), threading.Event()
        self._reading: Reading = {}
        self.spans: deque[SeriesSpan] = deque()
        self.answered_until_ns = math.inf
        self._settles = False
        self._reads = 0
        self._is_quick = self._is_abandoned = False
        self._devices: dict[int, Device | None] = {}
        """The opened devices; None for one that isn't opened yet."""
        self._xids: Xids | None = None
        self._xids_at = 0.0
        self.has_nothing_to_read = False
        self.busy_with: tuple[int | None, float] = (None, time.monotonic())
        """The GPU (None: the driver) that it is reading, and since when; 0.0 while it is idle."""

    def ask(self, patience_seconds: float) -> Reading:
        """Have the GPUs read, and return what was read since the last call."""
        if not self.busy_with[1]:
            self._answered.clear()
            self._asked.set()
            if self._is_quick:
                self._is_quick = self._answered.wait(patience_seconds)
        reading, self._reading = self._reading, {}
        return reading

    def settle(self, patience_seconds: float) -> None:
        """Have everything answered until now, if that takes no longer than `patience_seconds`."""
        self._settles = self._is_quick = True
        if self.busy_with[1]:
            self._answered.wait(patience_seconds)
        self.ask(patience_seconds)

    def abandon(self) -> None:
        """Ignore further results; the thread ends if its call returns."""
        self._is_abandoned = True

    def run(self) -> None:
        """Read until the thread is abandoned. Errors are recorded as an outage; a later reader
        retries.
        """
        try:
            self._open()
            while not (self._is_abandoned or self.has_nothing_to_read):
                self._asked.wait()
                self._asked.clear()
                self._answer()
                self._give_back_memory()
        except Exception as error:
            if not self._is_abandoned:
                self._outages.began(None, _reason(error))

    def _open(self) -> None:
        # The import isn't at the top: `ctypes` takes 0.9 MB, which a machine without a driver
        # doesn't need.
        from trimtab.sources.gpu import nvml
        from trimtab.sources.gpu.xids import Xids

        nvml.initialise()
        count = nvml.device_count()
        if self._is_abandoned:
            return
        self._outages.end_outage(None)
        self._devices = dict.fromkeys(range(count))
        for number in self._devices:
            self._inventory.expect(number)
        self._xids = Xids()
        self.has_nothing_to_read = not count
        self.busy_with = (None, 0.0)

    def _answer(self) -> None:
        began = time.monotonic()
        reading: Reading = {}
        settles, self._settles = self._settles, False
        for number in list(self._devices):
            self.busy_with = (number, time.monotonic())
            reading.update(self._read(number, settles))
            if self._is_abandoned:
                return
        self.busy_with = (None, time.monotonic())
        self._inventory.say()
        self._record_xids()
        self._take_spans()
        self._reading = reading
        self._is_quick = self._is_quick or time.monotonic() - began < _QUICK_SECONDS
        self.busy_with = (None, 0.0)
        self._answered.set()

    def _give_back_memory(self) -> None:
        """Return memory to the system once, when all that is needed has been loaded."""
        self._reads += 1
        if self._reads == _LOADED_READS:
            from trimtab.sources.gpu import nvml

            nvml.give_back_memory()

    def _take_spans(self) -> None:
        devices = [device for device in self._devices.values() if device]
        self.spans.extend(span for device in devices for span in device.take_spans())
        answered = (device.answered_until_ns for device in devices)
        self.answered_until_ns = min(answered, default=math.inf)

    def _read(self, number: int, settles: bool) -> Reading:
        from trimtab.sources.gpu import nvml

        if not self._outages.may_try(number):
            self._devices[number] = None
            return {}
        try:
            reading = (self._devices[number] or self._opened(number)).read(settles)
        except nvml.NvmlError as error:
            if error.code == nvml.NO_PERMISSION:
                del self._devices[number]
                self._inventory.deny(number)
                return {}
            if error.code in nvml.DRIVER_GONE:
                raise
            self._devices[number] = None
            if not self._is_abandoned:
                self._outages.began(number, error.reason)
            return {}
        if not self._is_abandoned:
            self._outages.end_outage(number)
        return reading

    def _opened(self, number: int) -> Device:
        from trimtab.sources.gpu.device import Device

        device = Device(number, self._pids, self._outages.record)
        self._devices[number] = device
        self._inventory.add(number, device.card)
        if self._xids:
            self._xids.watch(device)
        return device

    def _record_xids(self) -> None:
        if self._xids and time.monotonic() >= self._xids_at:
            self._xids_at = time.monotonic() + _XID_SECONDS
            for number, xid in self._xids.news():
                self._outages.record("gpu_xid", {"gpu": number, "xid": xid})


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return reason if isinstance(reason, str) else "library_not_loaded"

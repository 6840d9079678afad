"""The thread that reads NVML. It may hang at any line; its caller never does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from trimtab.sources.gpu.inventory import Inventory
from trimtab.sources.gpu.outages import Outages
from trimtab.sources.procfile import Reading

if TYPE_CHECKING:
    from trimtab.sources.gpu.device import Device
    from trimtab.sources.gpu.xids import Xids

_QUICK_SECONDS = 0.02
_XID_SECONDS = 5.0


class Reader(threading.Thread):
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
        self._is_quick = self._is_abandoned = False
        self._devices: dict[int, Device | None] = {}
        """None: not opened yet."""
        self._xids: Xids | None = None
        self._xids_at = 0.0
        self.has_nothing_to_read = False
        self.busy_with: tuple[int | None, float] = (None, time.monotonic())
        """Which GPU (None: the driver) it is reading, and since when; 0.0: it is idle."""

    def ask(self, patience_seconds: float) -> Reading:
        """Have the GPUs read, and return what was read since the last call."""
        if not self.busy_with[1]:
            self._answered.clear()
            self._asked.set()
            if self._is_quick:
                self._is_quick = self._answered.wait(patience_seconds)
        reading, self._reading = self._reading, {}
        return reading

    def abandon(self) -> None:
        """Ignore further results; the thread ends if its call returns."""
        self._is_abandoned = True

    def run(self) -> None:
        """Errors are recorded as an outage; a later reader retries."""
        try:
            self._open()
            while not (self._is_abandoned or self.has_nothing_to_read):
                self._asked.wait()
                self._asked.clear()
                self._answer()
        except Exception as error:
            if not self._is_abandoned:
                self._outages.began(None, _reason(error))

    def _open(self) -> None:
        # Not at the top: it takes 7 MB, which a machine without a driver doesn't need.
        import pynvml

        from trimtab.sources.gpu.xids import Xids

        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        if self._is_abandoned:
            return
        self._outages.ended(None)
        self._devices = dict.fromkeys(range(count))
        for number in self._devices:
            self._inventory.expect(number)
        self._xids = Xids()
        self.has_nothing_to_read = not count
        self.busy_with = (None, 0.0)

    def _answer(self) -> None:
        began = time.monotonic()
        reading: Reading = {}
        for number in list(self._devices):
            self.busy_with = (number, time.monotonic())
            reading.update(self._read(number))
            if self._is_abandoned:
                return
        self.busy_with = (None, time.monotonic())
        self._inventory.say()
        self._record_xids()
        self._reading = reading
        self._is_quick = self._is_quick or time.monotonic() - began < _QUICK_SECONDS
        self.busy_with = (None, 0.0)
        self._answered.set()

    def _read(self, number: int) -> Reading:
        import pynvml

        if not self._outages.may_try(number):
            self._devices[number] = None
            return {}
        try:
            reading = (self._devices[number] or self._opened(number)).read()
        except pynvml.NVMLError_NoPermission:
            del self._devices[number]
            self._inventory.deny(number)
            return {}
        except (pynvml.NVMLError_Uninitialized, pynvml.NVMLError_DriverNotLoaded):
            raise
        except pynvml.NVMLError as error:
            self._devices[number] = None
            if not self._is_abandoned:
                self._outages.began(number, _reason(error))
            return {}
        if not self._is_abandoned:
            self._outages.ended(number)
        return reading

    def _opened(self, number: int) -> Device:
        from trimtab.sources.gpu.device import Device

        device = Device(number, self._pids)
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
    """`NVMLError_DriverNotLoaded` is `driver_not_loaded`."""
    if isinstance(error, ImportError):
        return "no_nvidia_ml_py"
    name = type(error).__name__.removeprefix("NVMLError_")
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")

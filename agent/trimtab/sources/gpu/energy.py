"""Power and energy: the counter of energy is dear to read, the power cheap."""

from __future__ import annotations

import time
from ctypes import c_void_p

from trimtab.sources.gpu import nvml
from trimtab.sources.procfile import Reading

_CAUTION = 0.999
"""The factor of the estimate, which stays below the counter, or the counter would seem to fall when
it is read."""
_LONGEST_SECONDS = 20.0
"""The longest pause over which the power is known."""


class Energy:
    """The counter, read rarely, and in between what the power adds up to."""

    def __init__(self, handle: c_void_p) -> None:
        self._handle = handle
        self._watts = 0.0
        self._at = 0.0
        self._counted = -1.0
        """The joules that the counter said last; -1 if not yet."""
        self._shown = 0.0

    def power(self) -> Reading:
        watts, now = nvml.power_milliwatts(self._handle) / 1000, time.monotonic()
        if 0.0 < now - self._at <= _LONGEST_SECONDS:
            self._shown += _CAUTION * (now - self._at) * (self._watts + watts) / 2
        self._watts, self._at = watts, now
        return {"power_watts": round(watts), **self._total()}

    def count(self) -> Reading:
        """Put the estimate right; ask for the power afterwards. Raises NvmlError."""
        joules = nvml.energy_millijoules(self._handle) / 1000
        begins_again = joules < self._counted
        is_first = self._counted < 0
        self._shown = joules if begins_again or is_first else max(self._shown, joules)
        self._counted, self._at = joules, time.monotonic()
        return self._total()

    def _total(self) -> Reading:
        return {"energy_joules_total": int(self._shown)} if self._counted >= 0 else {}

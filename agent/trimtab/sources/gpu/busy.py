"""`busy_pct` from the driver's own samples, one to six a second, so that none is missed."""

from __future__ import annotations

import time
from ctypes import c_void_p

from trimtab.sources.gpu import nvml
from trimtab.sources.procfile import Reading, SeriesSpan

BUFFER_SECONDS = 10.0
"""The driver keeps samples a little longer than this (14 s on an H100 with driver 580)."""
_LONGEST_SAMPLE_US = 1_000_000
_CLOCK_STEP_US = 1_000_000


class BusySamples:
    """The samples since the last call, each as a span that ends when it was taken."""

    def __init__(self, handle: c_void_p, spans: list[SeriesSpan]) -> None:
        self._handle, self._spans = handle, spans
        self._seen_us = 0
        """Wall time of the last sample, as the driver counts."""
        self._wall_ahead_us = 0

    def read(self) -> Reading:
        ahead_us = (time.time_ns() - time.monotonic_ns()) // 1000
        step_us = ahead_us - self._wall_ahead_us
        if self._seen_us and abs(step_us) > _CLOCK_STEP_US:  # somebody set the clock
            self._seen_us += step_us
        self._wall_ahead_us = ahead_us
        samples = sorted(nvml.busy_samples(self._handle, self._seen_us))
        if not self._seen_us:
            samples = samples[-1:]
        for at_us, per_cent in samples:
            since_us = max(self._seen_us, at_us - _LONGEST_SAMPLE_US)
            since_ns, until_ns = (1000 * (us - ahead_us) for us in (since_us, at_us))
            self._spans.append(SeriesSpan("busy_pct", since_ns, until_ns, per_cent, per_cent))
            self._seen_us = at_us
        return {}

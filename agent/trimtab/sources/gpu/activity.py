"""SM, tensor core and memory activity and PCIe traffic of Hopper and newer GPUs, from NVML's GPM.

`busy_pct` says that a kernel ran; these series say how much of the GPU it used. An answer is the
mean between two samples, however far apart they are: asked rarely, it loses only resolution.
"""

from __future__ import annotations

import math
import time
from ctypes import c_void_p

from trimtab.sources.gpu import nvml
from trimtab.sources.procfile import Reading, SeriesSpan

_METRICS = {
    2: "sm_active_pct",
    3: "sm_occupancy_pct",
    5: "tensor_active_pct",
    10: "dram_active_pct",
    11: "fp64_active_pct",
    12: "fp32_active_pct",
    13: "fp16_active_pct",
}
_TRAFFIC = {20: "pcie_sent_bytes_total", 21: "pcie_received_bytes_total"}
"""The series of traffic, which are in MiB a second."""
_MIB = 2**20


class Activity:
    """Means since the previous answer, from two alternating samples."""

    def __init__(
        self, handle: c_void_p, spans: list[SeriesSpan], instance: int | None = None
    ) -> None:
        """Prepare the samples. `instance` is a MIG slice of the GPU, for which there is no
        traffic.
        """
        self._handle, self._spans, self._instance = handle, spans, instance
        self._before, self._now = nvml.new_gpm_sample(), nvml.new_gpm_sample()
        self._before_ns = 0
        self.offers_traffic = False
        """True if the GPU offers traffic; known after the second call of `read`."""
        self._names = [*_METRICS.values(), *(_TRAFFIC.values() if instance is None else ())]
        self._question = nvml.gpm_question([*_METRICS, *(_TRAFFIC if instance is None else ())])
        self._totals = dict.fromkeys(_TRAFFIC.values(), 0.0)

    def read(self) -> Reading:
        self._before, self._now = self._now, self._before
        since_ns, self._before_ns = self._before_ns, 0
        nvml.take_gpm_sample(self._handle, self._instance, self._now)
        until_ns = self._before_ns = time.monotonic_ns()
        if since_ns:
            values = nvml.gpm_answers(self._question, self._before, self._now)
            for name, value in zip(self._names, values):
                if value is not None and math.isfinite(value):
                    self._add(name, since_ns, until_ns, value)
        return {}

    def _add(self, name: str, since_ns: int, until_ns: int, value: float) -> None:
        if name not in self._totals:
            self._spans.append(SeriesSpan(name, since_ns, until_ns, value, value))
            return
        self.offers_traffic = True
        before = self._totals[name]
        self._totals[name] = before + value * _MIB * (until_ns - since_ns) / 1e9
        self._spans.append(SeriesSpan(name, since_ns, until_ns, before, self._totals[name]))

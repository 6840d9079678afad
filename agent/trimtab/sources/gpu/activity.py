"""SM, tensor core and memory activity of Hopper and newer GPUs, from NVML's GPM.

`busy_pct` says that a kernel ran; these series say how much of the GPU it used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pynvml as nvml

from trimtab.sources.procfile import Reading

_METRICS = {
    nvml.NVML_GPM_METRIC_SM_UTIL: "sm_active_pct",
    nvml.NVML_GPM_METRIC_SM_OCCUPANCY: "sm_occupancy_pct",
    nvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: "tensor_active_pct",
    nvml.NVML_GPM_METRIC_DRAM_BW_UTIL: "dram_active_pct",
    nvml.NVML_GPM_METRIC_FP64_UTIL: "fp64_active_pct",
    nvml.NVML_GPM_METRIC_FP32_UTIL: "fp32_active_pct",
    nvml.NVML_GPM_METRIC_FP16_UTIL: "fp16_active_pct",
}


def is_offered(handle: Any) -> bool:
    try:
        return bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
    except nvml.NVMLError:
        return False


class Activity:
    """Means since the previous read, from two alternating samples."""

    def __init__(self, take: Callable[[Any], Any]) -> None:
        """`take` fills a GPM sample."""
        self._take = take
        self._before, self._now = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
        self._has_before = False
        self._question = nvml.c_nvmlGpmMetricsGet_t()
        self._question.version = nvml.NVML_GPM_METRICS_GET_VERSION
        self._question.numMetrics = len(_METRICS)
        for metric, number in zip(self._question.metrics, _METRICS):
            metric.metricId = number

    def read(self) -> Reading:
        self._before, self._now = self._now, self._before
        had_before, self._has_before = self._has_before, False
        self._take(self._now)
        self._has_before = True
        if not had_before:
            return {}
        self._question.sample1, self._question.sample2 = self._before, self._now
        nvml.nvmlGpmMetricsGet(self._question)
        return {
            name: round(metric.value, 1)
            for metric, name in zip(self._question.metrics, _METRICS.values())
            if metric.nvmlReturn == nvml.NVML_SUCCESS and math.isfinite(metric.value)
        }

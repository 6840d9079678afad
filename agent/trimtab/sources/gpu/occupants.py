"""Measures who computes on a GPU: the run's own processes, and those of others."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from ctypes import c_void_p

from trimtab.sources.gpu import nvml
from trimtab.sources.procfile import MEMORY_STEP_BYTES, Reading, round_bytes

_FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""The host's namespace. NVML reports process ids of the host, inside a container too."""


class Occupants:
    """Memory of the run's processes on one GPU, and how many others use how much."""

    def __init__(
        self,
        handle: c_void_p,
        pids: Callable[[], Collection[int]],
        tell: Callable[[str], None],
    ) -> None:
        """Prepare the reading. `pids` are the run's. `tell` is called with `gpu_mps` if the GPU is
        shared through MPS.
        """
        self._handle, self._pids, self._tell = handle, pids, tell
        self._has_told_mps = False
        self._is_first_namespace = os.readlink("/proc/self/ns/pid") == _FIRST_PID_NAMESPACE  # noqa: PTH115

    def read(self) -> Reading:
        """Read the occupants. Nothing is known in a container with its own process ids, where none
        matches.
        """
        running = [*nvml.processes(self._handle), *self._mps_clients()]
        pids = self._pids()
        ours = [process for process in running if process.pid in pids]
        others = [process for process in running if process.pid not in pids]
        if not ours and not self._is_first_namespace:
            return {}
        return {
            **_memory("tree_memory_used_bytes", ours),
            "other_processes_count": len(others),
            **_memory("other_memory_used_bytes", others),
        }

    def _mps_clients(self) -> list[nvml.GpuProcess]:
        clients: list[nvml.GpuProcess] = []
        with suppress(nvml.NvmlError):
            clients = nvml.mps_processes(self._handle)
        if clients and not self._has_told_mps:
            self._has_told_mps = True
            self._tell("gpu_mps")
        return clients


def _memory(name: str, processes: list[nvml.GpuProcess]) -> Reading:
    """Return the memory; unknown if the driver doesn't know it of one of the processes."""
    sizes = [process.memory_bytes for process in processes]
    return (
        {} if nvml.UNKNOWN_MEMORY in sizes else {name: round_bytes(sum(sizes), MEMORY_STEP_BYTES)}
    )

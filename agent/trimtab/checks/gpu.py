"""Checks which GPUs the agent can read, which series they offer, and which GPUs the run gets."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from trimtab.checks.check import Check, CheckState
from trimtab.sources import Gpus, Reading
from trimtab.wire import Gpu

_SECONDS = 15.0
_LOST = "GPU utilisation, memory, power and throttling; rules about GPUs don't apply"
_FIXES = {
    "driver_not_loaded": "load the driver; `nvidia-smi` says why it isn't loaded",
    "no_permission": "let this user open /dev/nvidiactl and /dev/nvidia*",
    "lib_rm_version_mismatch": "the driver was updated while it was loaded: restart the machine, or"
    " the container to get the new library",
    "no_answer": "the driver hangs: `dmesg | grep -i xid` shows which GPU; restart the machine",
}
_CONTAINER = "start the container with --gpus all and NVIDIA_DRIVER_CAPABILITIES=utility,compute"


def gpus() -> Check:
    look = _Look()
    if look.problem:
        return Check("gpus", CheckState.MISSING, look.problem, _LOST, look.fix)
    lost = _lost(look.reading)
    ours = sum(gpu.allocated for gpu in look.gpus)
    models = ", ".join(sorted({gpu.model for gpu in look.gpus}))
    seen = f"{len(look.gpus)} by NVML, {ours} of them for the run: {models}"
    if look.troubles:
        named = "; ".join(f"GPU {trouble['gpu']}: {trouble['reason']}" for trouble in look.troubles)
        return Check("gpus", CheckState.PARTLY, f"{seen}; {named}", _LOST, _FIXES["no_answer"])
    return Check("gpus", CheckState.PARTLY if lost else CheckState.FINE, seen, lost)


class _Look:
    """Reads the GPUs like the agent, until every series that they offer had a value."""

    def __init__(self) -> None:
        self.gpus: list[Gpu] = []
        self.reading: Reading = {}
        self.troubles: list[dict[str, Any]] = []
        self.problem = self.fix = ""
        try:
            source = Gpus(self._tell, self._set_gpus, os.environ)
        except OSError:
            self._without_driver()
            return
        self._read(source)

    def _read(self, source: Gpus) -> None:
        until, reads_left = time.monotonic() + _SECONDS, 3
        while time.monotonic() < until and reads_left and not self.problem:
            reading = source.read()
            self.reading |= reading | {span.name: span.last for span in source.take_spans()}
            reads_left -= bool(reading)
            time.sleep(0.2)
            if source.has_none:
                self.problem, self.fix = "there is a driver, but no GPU", _CONTAINER
        if not self.gpus and not self.problem:
            self.problem, self.fix = "the driver doesn't answer", _FIXES["no_answer"]

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        if kind != "gpu_gap":
            return
        if data["gpu"] is None:
            reason = data["reason"]
            self.fix = _FIXES.get(reason, _CONTAINER)
            self.problem = f"the driver reports an error: {reason.replace('_', ' ')}"
        else:
            self.troubles.append(data)

    def _set_gpus(self, gpus: list[Gpu]) -> None:
        self.gpus = gpus

    def _without_driver(self) -> None:
        self.problem = "no libnvidia-ml.so.1"
        there = any(Path("/dev").glob("nvidia[0-9]*")) or Path("/proc/driver/nvidia").exists()
        self.fix = _CONTAINER if there else "if this machine has an NVIDIA GPU, install its driver"


def _lost(reading: Reading) -> str:
    names = {name.partition(".")[2] for name in reading}
    lost = []
    if "sm_active_pct" not in names and not any(name.endswith(".sm_active_pct") for name in names):
        lost.append("how much of the GPU its kernels use (needs Hopper or newer)")
    if "busy_pct" not in names:
        lost.append("GPU utilisation (NVIDIA doesn't report it with MIG)")
    if "pcie_received_bytes_total" not in names:
        lost.append("PCIe traffic")
    if not any(name.startswith("throttled_") for name in names):
        lost.append("for how long clocks were throttled")
    return "; ".join(lost)

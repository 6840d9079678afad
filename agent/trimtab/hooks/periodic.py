"""Checks precision, GPU memory and profile requests of a torch process about once a second."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from trimtab import ring, sdk
from trimtab.hooks.profiling import Profiling
from trimtab.hooks.training import Training
from trimtab.ring import DTYPES

_MEMORY_NS = 10_000_000_000


class PeriodicChecks:
    """Reports precision when it changes, and peak GPU memory every ten seconds if it rose."""

    def __init__(self, training: Training) -> None:
        self.amp: Any = None
        """The last autocast that was entered."""
        self._precision: tuple[int, int, int] | None = None
        self._peak = (0, 0)
        self._compiled = (0, 0.0)
        self._memory_at_ns = 0
        self._profiling = Profiling(training)
        training.look = self._look

    def _look(self, optimizer: Any, steps: int, now: int) -> None:
        with suppress(Exception):
            self._profiling.look(steps)
        torch = sys.modules["torch"]
        with suppress(Exception):
            self._report_precision(torch, optimizer)
        with suppress(Exception):
            self._report_number(optimizer)
        with suppress(Exception):
            self._report_compilation()
        if now >= self._memory_at_ns:
            self._memory_at_ns = now + _MEMORY_NS
            with suppress(Exception):
                self._report_memory(torch)

    def _report_precision(self, torch: Any, optimizer: Any) -> None:
        amp = self.amp
        autocast = (
            _dtype(amp.fast_dtype) if amp is not None and amp._enabled else DTYPES.index("off")
        )
        parameters = _dtype(optimizer.param_groups[0]["params"][0].dtype)
        flags = ring.TF32_MATMUL * (torch.get_float32_matmul_precision() != "highest")
        flags |= ring.TF32_CUDNN * bool(torch.backends.cudnn.allow_tf32)
        precision = autocast, parameters, flags
        if precision != self._precision and (recorder := sdk.attached.recorder):
            self._precision = precision
            recorder.fact(ring.PRECISION, autocast, parameters, flags=flags)

    def _report_number(self, optimizer: Any) -> None:
        """The optimizer's own count of its steps, which a loaded checkpoint continues.

        After a load it says nothing if it began with this process: then only weights were loaded.
        A count on a GPU isn't read, because that would wait for the GPU.
        """
        recorder = sdk.attached.recorder
        if recorder is None or recorder.script_reports_numbers:
            return
        state: dict[str, Any] = next(iter(optimizer.state.values()), {})
        count: Any = state.get("step")
        if hasattr(count, "device"):
            count = count.item() if count.device.type == "cpu" else None
        if count is None or (recorder.has_restored and int(count) <= recorder.trained):
            return
        recorder.numbered(int(count))

    def _report_compilation(self) -> None:
        """What torch.compile took since the last look, by its own records."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        if dynamo is None:
            return
        metrics = dynamo.compilation_time_metrics
        times = metrics.get("_compile.compile_inner") or metrics.get("_compile") or ()
        compiled = len(times), float(sum(times))
        if compiled != self._compiled and (recorder := sdk.attached.recorder):
            count, seconds = compiled[0] - self._compiled[0], compiled[1] - self._compiled[1]
            self._compiled = compiled
            if count > 0 and seconds > 0:
                recorder.fact(ring.COMPILE, round(seconds * 1e9), count)

    def _report_memory(self, torch: Any) -> None:
        """Only if the script has initialised CUDA: initialising it takes GPU memory."""
        if not torch.cuda.is_initialized():
            return
        peak = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        if peak != self._peak and (recorder := sdk.attached.recorder):
            self._peak = peak
            total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
            recorder.fact(ring.MEMORY, *peak, total)


def _dtype(dtype: Any) -> int:
    name = str(dtype).removeprefix("torch.")
    return DTYPES.index(name) if name in DTYPES else DTYPES.index("other")

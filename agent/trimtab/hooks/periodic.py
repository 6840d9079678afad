"""Checks precision, the GPU's clock and memory, and profile requests of a torch process about once
a second."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from trimtab import ring, sdk
from trimtab.hooks.gpu_clock import GpuClock
from trimtab.hooks.parameters import SeenModels
from trimtab.hooks.profiling import Profiling
from trimtab.hooks.training import TrainingState
from trimtab.ring import DTYPES

_MEMORY_NS = 10_000_000_000


class PeriodicChecks:
    """Reports precision when it changes, the GPU's time for the steps, and its memory every ten
    seconds."""

    def __init__(self, training: TrainingState, models: SeenModels) -> None:
        self.amp: Any = None
        """The last autocast that was entered."""
        self._precision: tuple[int, int, int] | None = None
        self._has_seen_formats = False
        self._training, self._models = training, models
        self._counted_optimizers = 0
        self._peak = (0, 0)
        self.parallel: Callable[[], Any] = lambda: None
        """The function that returns the model that DistributedDataParallel wrapped last, while it
        exists."""
        self._iteration = 0
        self._compiled = (0, 0.0)
        self._memory_at_ns = 0
        self._gpu_clock = GpuClock()
        self._profiling = Profiling(training)
        training.look = self._look

    def _look(self, optimizer: Any, steps: int, now: int) -> None:
        with suppress(Exception):
            self._profiling.look(steps)
        torch = sys.modules["torch"]
        with suppress(Exception):
            self._report_precision(torch, optimizer)
        with suppress(Exception):
            self._report_memory_format(torch, optimizer)
        with suppress(Exception):
            self._report_parameters()
        with suppress(Exception):
            self._count_step()
        with suppress(Exception):
            self._report_number(optimizer)
        with suppress(Exception):
            self._report_compilation()
        with suppress(Exception):
            self._report_communication()
        with suppress(Exception):
            self._report_gpu_time(torch.cuda, steps, now)
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

    def _report_memory_format(self, torch: Any, optimizer: Any) -> None:
        """Report once how many of the convolutions have their weights in channels_last.

        A weight of one channel or one place looks the same in both formats, and tells nothing.
        """
        recorder = sdk.attached.recorder
        if self._has_seen_formats or recorder is None:
            return
        self._has_seen_formats = True
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        if all(each.dim() < 2 for each in parameters):
            return  # Parameters that are flat, as FSDP's, have lost their shape.
        weights = [each for each in parameters if each.dim() == 4]
        last = [each.is_contiguous(memory_format=torch.channels_last) for each in weights]
        told = [is_last for is_last, each in zip(last, weights) if is_last != each.is_contiguous()]
        recorder.fact(ring.MEMORY_FORMAT, len(told), sum(told))

    def _count_step(self) -> None:
        """Have the next step counted if it is of another size, unless a profile is recorded."""
        recorder = sdk.attached.recorder
        if recorder is not None and self._training.at_step is None:
            self._training.counter.ask(recorder)

    def _report_parameters(self) -> None:
        """Report the models' parameters, and again when another optimizer made its first step."""
        recorder, optimizers = sdk.attached.recorder, self._training.optimizers()
        if recorder is None or len(optimizers) == self._counted_optimizers:
            return
        self._counted_optimizers = len(optimizers)
        count = self._models.count(optimizers)
        total, trainable, optimised, embedding, is_tied = count
        recorder.fact(ring.PARAMETERS, total, trainable, optimised, int(is_tied), embedding)

    def _report_number(self, optimizer: Any) -> None:
        """Report the optimizer's own count of its steps, which a loaded checkpoint continues.

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
        recorder.record_step_number(int(count))

    def _report_compilation(self) -> None:
        """Report what torch.compile took since the last look, by its own records."""
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

    def _report_communication(self) -> None:
        """Report how long the rank waited for the others after its own backward, by DDP's own
        records.

        DDP times its first ten iterations and then every hundredth. In the first one the ranks
        still wait for each other's start.
        """
        model, recorder = self.parallel(), sdk.attached.recorder
        if model is None or recorder is None:
            return
        timed = model._get_ddp_logging_data()
        iteration = int(timed["iteration"])
        if iteration > max(self._iteration, 1):
            self._iteration = iteration
            both = int(timed["backward_compute_comm_overlap_time"])
            waited = int(timed["backward_comm_time"]) - both
            recorder.fact(ring.DDP, max(waited, 0), iteration)

    def _report_gpu_time(self, cuda: Any, steps: int, now: int) -> None:
        """Report the GPU's time, but only if the script has initialised CUDA."""
        recorder = sdk.attached.recorder
        if recorder is None or not cuda.is_initialized():
            return
        for passed in self._gpu_clock.take_passed_steps():
            recorder.fact(ring.GPU_STEPS, passed.gpu_ns, passed.steps, passed.launch_ns)
        self._gpu_clock.mark(cuda, steps, now)

    def _report_memory(self, torch: Any) -> None:
        """Report memory, but only if the script has initialised CUDA: initialising it takes GPU
        memory.
        """
        recorder = sdk.attached.recorder
        if recorder is None or not torch.cuda.is_initialized():
            return
        known = torch.cuda.memory_stats()
        recorder.fact(
            ring.TORCH_MEMORY,
            known["allocated_bytes.all.current"],
            known["reserved_bytes.all.current"],
            known["num_ooms"],
            flags=known["num_alloc_retries"],
        )
        peak = known["allocated_bytes.all.peak"], known["reserved_bytes.all.peak"]
        if peak != self._peak:
            self._peak = peak
            total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
            recorder.fact(ring.MEMORY, *peak, total)


def _dtype(dtype: Any) -> int:
    name = str(dtype).removeprefix("torch.")
    return DTYPES.index(name) if name in DTYPES else DTYPES.index("other")

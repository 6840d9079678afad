"""The hook's knowledge of the GPU: the time of steps on it, and why its memory ran out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from trimtab import hooks, ring
from trimtab.hooks import out_of_memory
from trimtab.hooks.gpu_clock import GpuClock, StepsOnGpu
from trimtab.ring import RingReader
from trimtab.ring_events import ring_event

MIB, GIB = 2**20, 2**30
FULL = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.18 GiB of "
    "which 516.19 MiB is free. Including non-PyTorch memory, this process has 78.67 GiB memory in "
    "use. Of the allocated memory 78.09 GiB is allocated by PyTorch."
)
OLDER = (
    "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78 GiB total capacity; 14.57 GiB "
    "already allocated; 7.19 MiB free; 14.71 GiB reserved in total by PyTorch)"
)


class Queue:
    """Stands for `torch.cuda`: a GPU that works through its events when it is told to."""

    def __init__(self) -> None:
        self.recorded: list[Queue.Event] = []
        self.is_captured = False
        self.gpu_ms = 0.0
        self.passed = 0
        self.made = 0

    def is_current_stream_capturing(self) -> bool:
        return self.is_captured

    def Event(self, *, enable_timing: bool) -> Queue.Event_:
        assert enable_timing
        self.made += 1
        return Queue.Event_(self)

    class Event_:  # noqa: N801
        def __init__(self, queue: Queue) -> None:
            self._queue = queue
            self.number = -1

        def record(self) -> None:
            self.number = len(self._queue.recorded)
            self._queue.recorded.append(self)
            self.at_ms = self._queue.gpu_ms

        def query(self) -> bool:
            return self.number < self._queue.passed

        def elapsed_time(self, later: Queue.Event_) -> float:
            assert self.query(), "torch waits for the GPU or fails"
            assert later.query(), "torch waits for the GPU or fails"
            return later.at_ms - self.at_ms


def test_steps_on_the_gpu_are_read_when_it_has_passed_them_and_never_before():
    cuda, clock = Queue(), GpuClock()
    found: list[StepsOnGpu] = []
    for second in range(6):
        cuda.gpu_ms = 1500.0 * second
        clock.mark(cuda, 10 * second, second * 10**9)
        cuda.passed = max(0, second - 1)
        found += clock.take_passed_steps()
    assert found == [StepsOnGpu(10, 1_500_000_000, 1_000_000_000)] * 3
    cuda.passed = 6
    assert clock.take_passed_steps() == [StepsOnGpu(10, 1_500_000_000, 1_000_000_000)] * 2


def test_events_are_used_again_and_a_gpu_far_behind_gets_no_more_of_them():
    cuda, clock = Queue(), GpuClock()
    for second in range(100):
        clock.mark(cuda, second, second)
        cuda.passed = second
        clock.take_passed_steps()
    assert cuda.made <= 3
    for second in range(100, 150):
        clock.mark(cuda, second, second)
    assert len(cuda.recorded) <= 100 + 8


def test_no_event_is_captured_into_a_graph():
    cuda, clock = Queue(), GpuClock()
    cuda.is_captured = True
    clock.mark(cuda, 1, 1)
    assert not cuda.made


class OutOfMemoryError(RuntimeError):
    """Has the name of torch's error."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FULL, {"gpu": 1, "asked": 2 * GIB, "free": 516 * MIB, "total": 79 * GIB}),
        (OLDER, {"gpu": 0, "asked": 20 * MIB, "free": 7 * MIB, "total": 15 * GIB}),
    ],
)
def test_a_full_gpu_is_recorded_with_what_was_asked_and_what_was_free(text, expected):
    class Recorder:
        def fact(self, *fields: int, flags: int) -> None:
            self.event = ring_event(fields[0], flags, fields[1:])

        def flush(self) -> None:
            """Nothing is held."""

    recorder = Recorder()
    out_of_memory.record(OutOfMemoryError(text), lambda: recorder)
    kind, data = recorder.event
    assert kind == "gpu_out_of_memory"
    assert data["gpu"] == expected["gpu"]
    for name in ("requested", "free", "total"):
        wanted = expected["asked" if name == "requested" else name]
        assert data[f"{name}_bytes"] // MIB == pytest.approx(wanted // MIB, rel=0.06)


@pytest.mark.parametrize(
    "error", [RuntimeError(FULL), OutOfMemoryError("on the host"), KeyError(1)]
)
def test_other_errors_are_no_full_gpu(error):
    out_of_memory.record(error, lambda: pytest.fail("recorded"))


def test_the_error_that_ends_a_process_is_recorded_and_still_printed(tmp_path: Path):
    """A package that has the modules that the hook looks for stands for torch."""
    package = tmp_path / "torch" / "optim"
    package.mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text("class OutOfMemoryError(RuntimeError): pass\n")
    (package / "__init__.py").touch()
    (package / "optimizer.py").write_text("def register_optimizer_step_post_hook(hook): pass\n")
    (tmp_path / "train.py").write_text(
        f"import torch, torch.optim.optimizer\nraise torch.OutOfMemoryError({FULL!r})\n"
    )
    run_folder = tmp_path / "run"
    run_folder.mkdir()
    environment = hooks.environment({"PYTHONPATH": ":".join(sys.path)}, run_folder)
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "OutOfMemoryError: CUDA out of memory" in done.stderr
    (path,) = run_folder.glob("*.ring")
    kinds = [record[0] for record in RingReader(path).records()]
    assert ring.OUT_OF_MEMORY in kinds

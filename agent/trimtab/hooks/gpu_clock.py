"""Measures how long the GPU takes for the steps, beside how long it takes to launch them.

A program that doesn't wait for its GPU ends a step when it has launched it. About once a second an
event is put into the GPU's queue; the time between two of them is the GPU's for the steps between.
It is read when the GPU has passed both, without waiting.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

_MOST_PENDING = 8
"""The most seconds by which the GPU may be behind; further on no event is recorded."""


class _Mark(NamedTuple):
    event: Any
    steps: int
    at_ns: int


class StepsOnGpu(NamedTuple):
    """Steps that followed one another, by the GPU's clock and by that of the launching program."""

    steps: int
    gpu_ns: int
    launch_ns: int


class GpuClock:
    """The events of one process, on the stream that is current when steps end."""

    def __init__(self) -> None:
        self._pending: deque[_Mark] = deque()
        self._spare: list[Any] = []

    def mark(self, cuda: Any, steps: int, now_ns: int) -> None:
        """Record an event after so many steps, unless the stream is captured into a graph.

        Args:
            cuda: the module `torch.cuda`, initialised by the script.
        """
        if len(self._pending) >= _MOST_PENDING or cuda.is_current_stream_capturing():
            return
        event = self._spare.pop() if self._spare else cuda.Event(enable_timing=True)
        event.record()
        self._pending.append(_Mark(event, steps, now_ns))

    def take_passed_steps(self) -> list[StepsOnGpu]:
        """Return the steps between the events that the GPU has passed since the last call."""
        found = []
        while len(self._pending) > 1 and self._pending[1].event.query():
            before, after = self._pending.popleft(), self._pending[0]
            gpu_ns = round(before.event.elapsed_time(after.event) * 1e6)
            self._spare.append(before.event)
            steps, launch_ns = after.steps - before.steps, after.at_ns - before.at_ns
            if steps > 0:
                found.append(StepsOnGpu(steps, gpu_ns, launch_ns))
        return found

"""The GPUs, read through NVML. A driver that hangs costs GPU samples and nothing else.

A separate thread (`reader.py`) reads NVML at each tick. The sampler waits for it for at most 25 ms;
after a late answer it doesn't wait, and takes each answer at the next tick. If the thread hasn't
answered for five seconds, another one takes over without the GPU that hangs. The agent retries that
GPU, a lost GPU or a driver with an error after 10 s, then after twice as long each time. The events
`gpu_gap` and `gpu_back` mark each outage.

What is dear to ask is asked rarely, and answered for the time since (`schedule.py`,
`SeriesSpan`).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

from trimtab.sources.gpu.inventory import Inventory
from trimtab.sources.gpu.outages import Outages, Record
from trimtab.sources.gpu.reader import GpuReader
from trimtab.sources.procfile import Reading, SeriesSpan
from trimtab.wire import Gpu

_PATIENCE_SECONDS = 0.025
_SETTLING_SECONDS = 0.5
_SILENT_SECONDS = 5.0
_OPENING_SECONDS = 60.0
"""The time for opening: without persistence mode the driver wakes each GPU first."""
_MOST_LEFT_HANGING = 8

_LIBRARY = "libnvidia-ml.so.1"
_LINKER_CACHE = Path("/etc/ld.so.cache")
_USUAL_FOLDERS = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
)

OnList = Callable[[list[Gpu]], None]


class Gpus:
    """`gpu<N>.*` of every GPU that this process may read; N is its number in the driver's order.

    Raises OSError if no NVIDIA driver is installed.
    """

    def __init__(
        self,
        record: Record,
        on_list: OnList,
        environment: Mapping[str, str],
        pids: Callable[[], Collection[int]] | None = None,
    ) -> None:
        """Prepare the reading. `on_list` is called in another thread. `pids` are the process ids of
        the run, if any.
        """
        if not _is_installed():
            raise FileNotFoundError(_LIBRARY)
        self._outages = Outages(record)
        self._inventory = Inventory(on_list, environment)
        self._pids = pids
        self._reader: GpuReader | None = None
        self._left_hanging = 0

    def read(self) -> Reading:
        if self._reader is None or not self._reader.is_alive():
            self._start()
        reader = self._reader
        if reader is None or self._is_left_hanging(reader):
            return {}
        return reader.ask(_PATIENCE_SECONDS)

    def settle(self) -> None:
        """Have everything answered until now. A driver that is too slow for that loses it."""
        if self._reader is not None and self._reader.is_alive():
            self._reader.settle(_SETTLING_SECONDS)

    def take_spans(self) -> list[SeriesSpan]:
        """Return what rare queries were answered since the last call."""
        spans = self._reader.spans if self._reader else ()
        return [spans.popleft() for _ in range(len(spans))] if spans else []

    @property
    def answered_until_ns(self) -> float:
        """Return until when all rare queries have been answered, on CLOCK_MONOTONIC."""
        return self._reader.answered_until_ns if self._reader else math.inf

    def follow(self, pid: int) -> None:
        """Add another command of the run, with its own environment."""
        with suppress(OSError):
            words = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
            self._inventory.also_for(dict(word.split("=", 1) for word in words if "=" in word))

    @property
    def has_none(self) -> bool:
        """Return whether there is a driver, but no GPU."""
        return self._reader is not None and self._reader.has_nothing_to_read

    def _start(self) -> None:
        """Start a reader, unless there is no GPU or the next retry isn't due."""
        if self.has_none:
            return
        self._reader = None
        if self._left_hanging < _MOST_LEFT_HANGING and self._outages.may_try(None):
            self._reader = GpuReader(self._outages, self._inventory, self._pids)
            self._reader.start()

    def _is_left_hanging(self, reader: GpuReader) -> bool:
        busy_with, since = reader.busy_with
        limit = _OPENING_SECONDS if busy_with is None else _SILENT_SECONDS
        if not since or time.monotonic() - since <= limit:
            return False
        reader.abandon()
        self._left_hanging += 1
        self._outages.began(busy_with, "no_answer")
        self._reader = None
        return True


def _is_installed() -> bool:
    """Return whether the linker would find the library. Loading it needs `ctypes`, which takes 0.9
    MB.
    """
    with suppress(OSError):
        if _LIBRARY.encode() in _LINKER_CACHE.read_bytes():
            return True
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_USUAL_FOLDERS]
    return any(folder and (Path(folder) / _LIBRARY).exists() for folder in folders)

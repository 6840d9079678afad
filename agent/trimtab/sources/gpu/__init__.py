"""The GPUs, by NVML, at arm's length: a driver that hangs costs GPU samples and nothing else.

NVML is asked in a thread of its own (`reader.py`) at each tick. The sampler waits for its answer
25 ms at most, and not at all once an answer was late: it comes with the next tick then. A thread
that hasn't answered for five seconds is left to itself, and another one takes over, without the
GPU that it hangs on. That GPU, one that is lost, and a driver that refuses are tried again after
10 s, then after twice as long each time. Each such stretch is told as `gpu_gap` and `gpu_back`.

`pynvml` is loaded where there is a driver only: it takes as much memory as all else here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

from trimtab.sources.gpu.inventory import Inventory
from trimtab.sources.gpu.outages import Outages, Tell
from trimtab.sources.gpu.reader import Reader
from trimtab.sources.procfile import Reading
from trimtab.wire import Gpu

_PATIENCE_SECONDS = 0.025
_SILENT_SECONDS = 5.0
_OPENING_SECONDS = 60.0
"""Without persistence mode the driver wakes each GPU first."""
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
    """`gpu<N>.*` of every GPU that this process may ask, N counting those in the driver's order.

    Raises OSError where no NVIDIA driver is installed.
    """

    def __init__(
        self,
        tell: Tell,
        on_list: OnList,
        environment: Mapping[str, str],
        pids: Callable[[], Collection[int]] | None = None,
    ) -> None:
        """`on_list` is called in another thread. `pids`: the process ids of the run, if any."""
        if not _is_installed():
            raise FileNotFoundError(_LIBRARY)
        self._outages = Outages(tell)
        self._inventory = Inventory(on_list, environment)
        self._pids = pids
        self._reader: Reader | None = None
        self._left_hanging = 0

    def read(self) -> Reading:
        if self._reader is None or not self._reader.is_alive():
            self._start()
        reader = self._reader
        if reader is None or self._is_left_hanging(reader):
            return {}
        return reader.ask(_PATIENCE_SECONDS)

    def follow(self, pid: int) -> None:
        """One more command of the run, with an environment of its own."""
        with suppress(OSError):
            words = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
            self._inventory.also_for(dict(word.split("=", 1) for word in words if "=" in word))

    @property
    def has_none(self) -> bool:
        """There is a driver, but no GPU."""
        return self._reader is not None and self._reader.has_nothing_to_read

    def _start(self) -> None:
        """Unless the one before has ended because there is nothing to read, or not yet again."""
        if self.has_none:
            return
        self._reader = None
        if self._left_hanging < _MOST_LEFT_HANGING and self._outages.may_try(None):
            self._reader = Reader(self._outages, self._inventory, self._pids)
            self._reader.start()

    def _is_left_hanging(self, reader: Reader) -> bool:
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
    """Whether the linker would find it. To try takes `ctypes`, and that 0.9 MB."""
    with suppress(OSError):
        if _LIBRARY.encode() in _LINKER_CACHE.read_bytes():
            return True
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_USUAL_FOLDERS]
    return any(folder and (Path(folder) / _LIBRARY).exists() for folder in folders)

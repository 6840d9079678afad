"""Measures used and free space of the file systems of the working folder, /tmp and /dev/shm.

`statvfs` of a dead network mount blocks forever, so each file system has its own thread, and isn't
asked again until that thread returns.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from trimtab.sources.procfile import MEMORY_STEP_BYTES, Reading, round_bytes

_EVERY_SECONDS = 30.0


class FileSystems:
    """`fs_<work|tmp|shm>.used_bytes` and `.free_bytes`, free for this user; every 30 s."""

    def __init__(self, work: Path | None = None) -> None:
        places = {"work": work or Path(), "tmp": Path("/tmp"), "shm": Path("/dev/shm")}  # noqa: S108
        self._asked = [_Asked(name, path) for name, path in places.items()]
        self._due = 0.0

    def read(self) -> Reading:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _EVERY_SECONDS
            for asked in self._asked:
                asked.ask()
        reading: Reading = {}
        for asked in self._asked:
            reading.update(asked.take_reading())
        return reading


class _Asked:
    def __init__(self, name: str, path: Path) -> None:
        self._name, self._path = name, path
        self._thread: threading.Thread | None = None
        self._reading: Reading = {}

    def ask(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._look, daemon=True)
            self._thread.start()

    def take_reading(self) -> Reading:
        reading, self._reading = self._reading, {}
        return reading

    def _look(self) -> None:
        with suppress(OSError):
            status = os.statvfs(self._path)
            used = (status.f_blocks - status.f_bfree) * status.f_frsize
            self._reading = {
                f"fs_{self._name}.used_bytes": round_bytes(used, MEMORY_STEP_BYTES),
                f"fs_{self._name}.free_bytes": round_bytes(
                    status.f_bavail * status.f_frsize, MEMORY_STEP_BYTES
                ),
            }

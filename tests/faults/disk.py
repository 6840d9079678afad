"""A small disk of the service's own, which can be filled and can lose its power."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DISK_BYTES = 320 * 2**20
SHUT_DOWN = 0x8004587D
"""FS_IOC_SHUTDOWN of `linux/fs.h`, by which file system developers test losses of power."""
WITHOUT_FLUSHING = struct.pack("=I", 2)


class Disk:
    """An ext4 file system in a file, mounted at `folder`. Needs root."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._image = folder, folder.with_suffix(".image")
        with self._image.open("wb") as image:
            image.truncate(DISK_BYTES)
        # No blocks kept back for root, who would fill them after the disk is full.
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        self._mount()

    def lose_power(self) -> None:
        """Stop it at once: what wasn't flushed is gone. Everything else on it fails until
        `power_up`."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, SHUT_DOWN, WITHOUT_FLUSHING)
        finally:
            os.close(folder)

    def power_up(self) -> None:
        """Read the journal and go on. No process may use the disk."""
        _run("umount", str(self.folder))
        self._mount()

    def flush(self) -> None:
        _run("sync", "--file-system", str(self.folder))

    def close(self) -> None:
        _run("umount", "--lazy", str(self.folder))

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.folder))
        lost_and_found = self.folder / "lost+found"
        if lost_and_found.exists():
            lost_and_found.rmdir()


@contextmanager
def small_disk(folder: Path) -> Iterator[Disk | None]:
    """Mount a disk of its own at `folder`; yield None where we can't."""
    folder.mkdir(exist_ok=True)
    try:
        disk = Disk(folder)
    except (OSError, subprocess.CalledProcessError):
        yield None
        return
    try:
        yield disk
    finally:
        disk.close()


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)

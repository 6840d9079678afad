"""A clock of the service's own, which can be set while it runs."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).with_name("jumping_clock.c")
COMPILERS = ("cc", "gcc", "clang")


class Clock:
    """Moves the time of day of all processes that are started with its `variables`."""

    def __init__(self, folder: Path, compiler: str) -> None:
        folder.mkdir()
        library, self._offset = folder / "jumping_clock.so", folder / "offset"
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"]
        subprocess.run(command, check=True)
        self._set(0)
        self.variables = {
            "LD_PRELOAD": str(library),
            "TRIMTAB_CLOCK_OFFSET": str(self._offset),
        }

    @contextmanager
    def moved(self, seconds: float) -> Iterator[None]:
        """Set it forward or back; afterwards it is right again, by another jump."""
        self._set(round(seconds * 1e9))
        try:
            yield
        finally:
            self._set(0)

    def _set(self, offset_ns: int) -> None:
        """Write the offset. The file stays the same one, because the processes have mapped it."""
        with self._offset.open("r+b" if self._offset.exists() else "wb") as file:
            file.write(struct.pack("=q", offset_ns))


def own_clock(folder: Path) -> Clock | None:
    """Return a clock whose library lies in `folder`; None without a C compiler."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    return Clock(folder, compiler) if compiler else None

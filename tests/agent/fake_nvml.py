"""A driver for machines without a GPU: `fake_nvml.c`, compiled once, told what to say by a file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")


def compiled(folder: Path) -> Path:
    """Compile the driver, and return a folder for LD_LIBRARY_PATH."""
    library = folder / "libnvidia-ml.so.1"
    options = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["gcc", *options, "-o", str(library), str(_SOURCE)], check=True)
    return folder


class Driver:
    """The GPUs that the processes with `environment` see."""

    def __init__(self, library: Path, script: Path) -> None:
        self._script = script
        self.environment = {"LD_LIBRARY_PATH": str(library), "TRIMTAB_FAKE_NVML": str(script)}

    def says(self, *lines: str) -> None:
        """Say these lines from now on, and nothing else; seen within 20 ms."""
        draft = self._script.with_suffix(".draft")
        draft.write_text("".join(f"{line}\n" for line in lines))
        os.replace(draft, self._script)  # noqa: PTH105 - at once, for a reader in between

"""The Pythons of this machine: the training's, and the agent's, need not be that of the tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

AGENT = (3, 9)
"""The oldest Python that runs the agent."""
HOOK = (3, 8)
"""The oldest Python whose training the tests measure. Older ones only have to be left alone."""


def interpreters(oldest: tuple[int, int]) -> dict[tuple[int, int], str]:
    """Return a path for each version from `oldest` on: this one, pyenv's, those on PATH."""
    return {version: path for version, path in _every().items() if version >= oldest}


@cache
def _every() -> dict[tuple[int, int], str]:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    own = str(sys._base_executable)  # type: ignore[attr-defined]
    found: dict[tuple[int, int], str] = {}
    for path in (own, *map(str, sorted(pyenv.glob("*/bin/python")))):
        if version := _version(path):
            found.setdefault(version, path)
    for minor in range(30):
        # pyenv's commands take a while to start: only for what isn't found yet.
        path = shutil.which(f"python3.{minor}")
        if path and (3, minor) not in found and (version := _version(path)):
            found[version] = path
    return dict(sorted(found.items()))


def _version(python: str) -> tuple[int, int] | None:
    """Return its version, or None if it doesn't start: pyenv may have commands that don't."""
    answer = subprocess.run([python, "-V"], capture_output=True, text=True, check=False)
    number = re.fullmatch(r"Python (\d+)\.(\d+)\..*", (answer.stdout + answer.stderr).strip())
    return (int(number[1]), int(number[2])) if number else None

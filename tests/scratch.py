"""A copy of the project, to add something to it as a contributor does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 280


def copy(folder: Path) -> None:
    """Copy everything that Git keeps or would add, without environments and what was built."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for path in filter(None, listed.split("\0")):
        if (ROOT / path).is_file():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, folder / path)


def python(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs Python on the copy instead of this checkout."""
    # Tests on PostgreSQL would take the database of those that run now.
    own = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=own | {"PYTHONPATH": f"{folder}:{folder / 'agent'}"} | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs tests of the copy."""
    return python(folder, "-m", "pytest", "-q", "-rA", "-n", "0", "--no-migrations", *arguments)

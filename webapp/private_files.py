"""Files that only the service's user may read: made so, whatever the umask, and kept so.

What every user can read is what a umask left, not what anybody wanted: `up` closes it and says so.
What a group alone can read was set on purpose: it stays, and `manage.py check` mentions it.
"""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.conf import settings

SECRETS = ("secret-key", "agent-token")
OTHERS, GROUP = stat.S_IRWXO, stat.S_IRWXG


@dataclass(frozen=True)
class ExposedPath:
    """A file or folder that others than its user can reach."""

    path: Path
    mode: int

    @property
    def is_open_to_all(self) -> bool:
        """Return whether everybody has rights; otherwise a group alone does."""
        return bool(self.mode & OTHERS)

    @property
    def private_mode(self) -> int:
        return self.mode & ~(OTHERS | GROUP)

    @property
    def remedy(self) -> str:
        return f"chmod {self.private_mode:o} {self.path}"

    def close(self) -> str:
        """Narrow its rights; return what was done. Raises OSError if it is another user's."""
        self.path.chmod(self.private_mode)
        return f"{self.path} had mode {self.mode:04o} and has {self.private_mode:04o} now."


def make_folder(path: Path) -> None:
    """Make a folder with mode 0700 if it is new. Raises OSError."""
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)


def make_file(path: Path) -> None:
    """Make an empty file with mode 0600 if it is new. Raises OSError."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def write_durably(path: Path, text: str) -> None:
    """Write a file with mode 0600: whole or not at all, if the power fails. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - it is open
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def service_paths() -> list[Path]:
    """Return whatever holds secrets, rows or samples. What lies in a folder is closed by the
    folder.
    """
    data = Path(settings.DATA_DIR)
    paths = [data, *(data / name for name in SECRETS)]
    database = settings.DATABASES["default"]
    if str(database["ENGINE"]).endswith("sqlite"):
        paths += [Path(f"{database['NAME']}{suffix}") for suffix in ("", "-wal", "-shm")]
    if not settings.OBJECTS_URL.startswith("s3:"):
        paths.append(Path(unquote(urlsplit(settings.OBJECTS_URL).path)))
    return paths


def find_exposed(paths: list[Path]) -> list[ExposedPath]:
    """Return those of the paths that exist and give rights to a group or to everybody."""
    found = []
    for path in paths:
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if mode & (OTHERS | GROUP):
            found.append(ExposedPath(path, mode))
    return found

"""Chooses where the spool is kept: the state folder, else a temporary one, else memory."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from trimtab.spool.database import connect
from trimtab.spool.filesystem import is_network
from trimtab.spool.spool import CAP_BYTES, Spool

_LEAST_CAP_BYTES = 8 * 1024 * 1024


def state_folder() -> Path:
    """Return TRIMTAB_STATE_DIR, or else $XDG_STATE_HOME/trimtab, or else ~/.local/state/trimtab."""
    if chosen := os.environ.get("TRIMTAB_STATE_DIR"):
        return Path(os.path.expanduser(chosen))  # noqa: PTH111 - without a home it raises nothing
    if base := os.environ.get("XDG_STATE_HOME"):
        return Path(base) / "trimtab"
    return Path(os.environ.get("HOME") or "/nonexistent") / ".local/state/trimtab"


def open_spool() -> Spool:
    """Open the spool. Never raises: if no file can be kept, the spool is in memory and `problem`
    says why.
    """
    problem = ""
    for folder in _folders():
        try:
            return Spool(_usable_file(folder), _cap_bytes(folder), problem)
        except (OSError, sqlite3.Error) as error:
            problem = problem or f"{folder}: {error}"
    return Spool(None, problem=problem)


def _folders() -> list[Path]:
    """Return the folders to try. A local folder that survives a restart replaces a network home."""
    name = f"trimtab-{os.getuid()}"
    temporary = [Path(tempfile.gettempdir()) / name]
    if is_network(state_folder()):
        return [Path("/var/tmp") / name, *temporary]  # noqa: S108 - made 0700, owner checked
    return [state_folder(), *temporary]


def _cap_bytes(folder: Path) -> int:
    """Return TRIMTAB_SPOOL_MIB, or else 256 MiB, but at most a twentieth of the free disk."""
    chosen = os.environ.get("TRIMTAB_SPOOL_MIB", "")
    if chosen.isdecimal() and int(chosen):
        return int(chosen) * 1024 * 1024
    disk = os.statvfs(folder)
    return max(_LEAST_CAP_BYTES, min(CAP_BYTES, disk.f_bavail * disk.f_frsize // 20))


def _usable_file(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    path = folder / "spool.sqlite3"
    _touch(path)
    try:
        connect(path).close()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        _set_aside(path)
        _touch(path)
    return path


def _touch(path: Path) -> None:
    """Create the file before SQLite does, so that only the user can ever read it."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _set_aside(path: Path) -> None:
    """Rename a damaged database instead of deleting it."""
    stamp = time.time_ns()
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{path}.broken-{stamp}{suffix}")

"""Several commands of one run on one node (srun, mpirun) share one sampler.

The first agent that gets the run's lock measures. The others run their command with a hook that
writes to the first agent's folder, and register the process there. If the first agent ends early,
the next one that gets the lock continues measuring, in the same folder.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from trimtab.sources import Reading
from trimtab.timeline import process_started

_MEMBER_SUFFIX = ".member"
_PUBLISH_SECONDS = 2.0
_ASK_SECONDS = 0.05
_LEAVE_SECONDS = 1.0
"""The time between the end of a command and the report of its agent, on a busy machine."""
_ENDED = "ended"


class Lock:
    """Lock of the agent that measures this run on this node, until it ends."""

    def __init__(self, run: UUID, attempt: int) -> None:
        folder = Path(tempfile.gettempdir()) / f"trimtab-{os.getuid()}-shared"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to another user")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(folder / f"{run}-{attempt}.lock", flags, 0o600)

    def try_acquire(self) -> bool:
        """Try to take the lock. True if this process holds it now."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def publish(self, folder: Path) -> None:
        """Publish the folder of this agent to the others."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, os.fsencode(folder), 0)

    def measuring_folder(self) -> Path | None:
        """Return the folder of the measuring agent; None if it isn't published within 2 s."""
        until = time.monotonic() + _PUBLISH_SECONDS
        while time.monotonic() < until:
            folder = Path(os.fsdecode(os.pread(self._file, 4096, 0)))
            if folder.name and folder.is_dir():
                return folder
            time.sleep(_ASK_SECONDS)
        return None

    def release(self) -> None:
        """Release the lock. The file stays, because others may wait for it."""
        with suppress(OSError):
            os.close(self._file)


def join(folder: Path, pid: int) -> None:
    """Register a command of the run that is measured in `folder`."""
    _write(folder, pid, f"{process_started(pid)} ")


def leave(folder: Path, pid: int, exit_code: int | None) -> None:
    with suppress(OSError):
        _write(folder, pid, f"{_ENDED} {exit_code or 0}")


def living_processes(folder: Path) -> list[int]:
    """Return the registered processes that still run."""
    return [pid for pid, started, _ in _members(folder) if process_started(pid) == started]


def worst_exit_code(folder: Path) -> int:
    """Return the highest exit code of the registered processes that ended; 0 if there is none."""
    codes = [code for _, _, code in _members(folder)]
    return max(codes, default=0)


def wait_for_others(folder: Path, at_most_seconds: float) -> None:
    """Wait for the other ranks, which usually end at about the same time, and a moment for the exit
    codes of those that have just ended."""
    until = time.monotonic() + at_most_seconds
    while time.monotonic() < until and living_processes(folder):
        time.sleep(_ASK_SECONDS)
    until = time.monotonic() + _LEAVE_SECONDS
    while time.monotonic() < until and _are_leaving(folder):
        time.sleep(_ASK_SECONDS)


class JoinedProcesses:
    """A source without series: follows the processes that joined since the last tick."""

    def __init__(self, folder: Path, follow: Sequence[Callable[[int], None]]) -> None:
        self._folder = folder
        self._follow = follow
        self._seen: set[str] = set()

    def read(self) -> Reading:
        for name in os.listdir(self._folder):  # noqa: PTH208 - runs at every tick
            if name.endswith(_MEMBER_SUFFIX) and name not in self._seen:
                self._seen.add(name)
                for follow in self._follow:
                    follow(int(name.removesuffix(_MEMBER_SUFFIX)))
        return {}


def _are_leaving(folder: Path) -> bool:
    """Return whether a registered process has ended, and its agent has not reported that yet."""
    return any(
        started != _ENDED and process_started(pid) != started
        for pid, started, _ in _members(folder)
    )


def _write(folder: Path, pid: int, text: str) -> None:
    draft = folder / f"{pid}.member-draft"
    draft.write_text(text)
    draft.replace(folder / f"{pid}{_MEMBER_SUFFIX}")


def _members(folder: Path) -> list[tuple[int, str, int]]:
    """Return process id, start time ("ended" after its end), and exit code of each member."""
    members = []
    for path in folder.glob(f"*{_MEMBER_SUFFIX}"):
        with suppress(OSError, ValueError):
            started, _, code = path.read_text().partition(" ")
            members.append((int(path.name.removesuffix(_MEMBER_SUFFIX)), started, int(code or 0)))
    return members

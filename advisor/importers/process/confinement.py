"""Confines a process that reads hostile files: its memory, time and files, and what it may reach.

The limits are the kernel's. So is the empty network, where the kernel lets this user make one. What
else Python code asks the system for passes an audit hook (https://peps.python.org/pep-0578/), which
can't be removed: no sockets, no programs, and no files but those of the conversion and the
libraries. A hook is no sandbox against machine code: the readers of formats are Python, and the
libraries below them get bounded, plain input.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from advisor.importers.process.task import ConversionLimits

NICENESS = 10
_LIKELIEST_VICTIM = 1000
_PR_SET_PDEATHSIG, _CLONE_NEWNET = 1, 0x40000000
_OPEN_FILES = 256
_GRACE_CPU_SECONDS = 5
_LEAST_FILE_BYTES = 64 * 1024 * 1024
"""The facts of what was converted are written in any case."""
_CHECKOUT = Path(__file__).resolve().parents[3]
_READABLE = (
    *{sys.prefix, sys.base_prefix, sys.exec_prefix},
    *(str(_CHECKOUT / name) for name in ("advisor", "rules", "agent/trimtab")),
    *("/usr/share/zoneinfo", "/etc/localtime", "/dev/null", "/dev/urandom"),
    *("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system", "/sys/fs/cgroup"),
)
_REFUSED = ("socket.", "subprocess.", "os.exec", "os.posix_spawn", "os.fork", "os.system", "pty.")
_REFUSED_WHOLE = {"os.kill", "os.killpg", "ctypes.dlopen", "sqlite3.load_extension"}
_CHANGES = {
    f"os.{name}"
    for name in (
        *("remove", "rename", "mkdir", "rmdir", "link", "symlink", "chmod", "chown", "truncate"),
        "utime",
    )
}
_LOOKS = {"os.listdir", "os.scandir"}


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, and end it if that has happened."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def give_way() -> None:
    """Let pages, uploads and analyses come first, and be the first to go when memory is short."""
    os.nice(max(0, NICENESS - os.getpriority(os.PRIO_PROCESS, 0)))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_LIKELIEST_VICTIM), encoding="ascii")


def leave_network() -> None:
    """Move to an empty network, where the kernel allows it to this user."""
    if sys.platform == "linux":
        ctypes.CDLL(None).unshare(_CLONE_NEWNET)


def confine(limits: ConversionLimits, folder: Path) -> None:
    """Limit this process for good. It may write below `folder` only. Load all modules before."""
    for which, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_FSIZE, max(limits.unpacked_bytes, _LEAST_FILE_BYTES)),
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
    ):
        _limit(which, most)
    sys.addaudithook(_Hook(folder.resolve()))


def _limit(which: int, most: int) -> None:
    _, hard = resource.getrlimit(which)
    grace = _GRACE_CPU_SECONDS if which == resource.RLIMIT_CPU else 0
    top = most + grace if hard == resource.RLIM_INFINITY else min(most + grace, hard)
    resource.setrlimit(which, (min(most, top), top))


class _Hook:
    """Refuses what a conversion has no need of. Raises PermissionError where it is tried."""

    def __init__(self, folder: Path) -> None:
        self._writable = (f"{folder}/",)
        self._readable = (*self._writable, *(f"{each.rstrip('/')}/" for each in _READABLE))

    def __call__(self, event: str, words: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = words
            is_read = (flags or 0) & os.O_ACCMODE == os.O_RDONLY and not (flags or 0) & os.O_CREAT
            self._check(path, self._readable if is_read else self._writable, event)
        elif event in _CHANGES:
            for path in words[:2] if event in ("os.rename", "os.link") else words[:1]:
                self._check(path, self._writable, event)
        elif event in _LOOKS or event == "sqlite3.connect":
            self._check(words[0], self._readable, event)
        elif event in _REFUSED_WHOLE or event.startswith(_REFUSED):
            raise PermissionError(f"a conversion may not do this: {event}")

    def _check(self, path: object, allowed: tuple[str, ...], event: str) -> None:
        if path is None or isinstance(path, int):
            return  # the working folder, or what is open already
        text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path)
        if text.startswith("file:"):
            text = unquote(text[len("file:") :].partition("?")[0])
        if not f"{os.path.realpath(text)}/".startswith(allowed):
            raise PermissionError(f"a conversion may not do this: {event} of {text[:80]!r}")

"""Starts the command with what the agent was started with.

Python and the agent change some of it for themselves: dispositions of signals, LC_CTYPE, the limit
of open files, closed standard streams. The command gets all of it as if the agent weren't there.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_SHELL = "/bin/sh"
_MOST_OPEN_FILES = 4_096
_COERCED = b"LC_CTYPE"
"""The variable that Python sets in the C locale (PEP 538)."""


@dataclass(frozen=True)
class Inheritance:
    """Settings with which this process was started, as far as it doesn't pass them on by itself."""

    environment: dict[str, str]
    blocked: set[signal.Signals | int]
    ignores_children: bool
    """True if SIGCHLD was ignored. The kernel keeps no exit codes for such a process."""
    limits: dict[int, tuple[int, int]]
    """The soft and hard limit, by resource."""


def prepare_process() -> Inheritance:
    """Prepare this process for the agent. Call before it opens files or starts threads."""
    _hold_standard_streams()
    inherited = Inheritance(
        _environment_at_start(),
        set(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN,
        {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)},
    )
    _raise_limits(inherited.limits)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return inherited


def start(
    words: Sequence[str],
    environment: Mapping[str, str],
    inherited: Inheritance,
    own_group: bool,
    stderr: int | None = None,
) -> int:
    """Start the command in a new process. Returns its id.

    `posix_spawn` can't start a command with SIGCHLD ignored while its parent waits for it.

    Args:
        stderr: the command's standard error; None: that of this process.

    Raises:
        OSError: the command can't be started.
    """
    failed, failing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if own_group:
                os.setpgid(0, 0)
            if stderr is not None:
                os.dup2(stderr, 2)
            become(words, environment, inherited)
        except BaseException as error:
            os.write(failing, b"%d" % (getattr(error, "errno", None) or errno.ENOMEM))
        finally:
            os._exit(127)
    os.close(failing)
    with open(failed, "rb") as pipe:  # noqa: PTH123 - it has no path
        number = pipe.read()
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)), words[0])
    return pid


def become(
    words: Sequence[str], environment: Mapping[str, str], inherited: Inheritance
) -> NoReturn:
    """Replace this process with the command, as `execvp` does. Raises OSError."""
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if inherited.ignores_children:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for kind, limits in inherited.limits.items():
        resource.setrlimit(kind, limits)
    signal.pthread_sigmask(signal.SIG_SETMASK, inherited.blocked)
    try:
        os.execvpe(words[0], list(words), environment)  # noqa: S606 - it is the user's own command
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    script = shutil.which(words[0], path=environment.get("PATH", os.defpath)) or words[0]
    os.execve(_SHELL, [_SHELL, script, *words[1:]], environment)  # noqa: S606


def _hold_standard_streams() -> None:
    """Keep the numbers of closed standard streams, which no file of the agent may get.

    The command finds the stream closed: the kernel closes this one when the command starts.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number


def _environment_at_start() -> dict[str, str]:
    variables = dict(os.environ)
    with suppress(OSError):
        pairs = Path("/proc/self/environ").read_bytes().split(b"\0")
        variables.pop(os.fsdecode(_COERCED), None)
        for name, _, value in (pair.partition(b"=") for pair in pairs):
            if name == _COERCED:
                variables[os.fsdecode(name)] = os.fsdecode(value)
    return variables


def _raise_limits(limits: Mapping[int, tuple[int, int]]) -> None:
    """Raise the limits as far as the hard ones allow: the soft ones are meant for the command."""
    for kind, (soft, hard) in limits.items():
        wanted = hard
        if kind == resource.RLIMIT_NOFILE:
            most = _MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else hard
            wanted = max(soft, min(most, _MOST_OPEN_FILES))
        if soft != resource.RLIM_INFINITY:
            with suppress(OSError, ValueError):
                resource.setrlimit(kind, (wanted, hard))

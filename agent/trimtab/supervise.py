"""Runs the training command as if Trimtab weren't there: its signals, terminal and exit code."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

NOT_FOUND = 127
NOT_EXECUTABLE = 126

_FORWARDED = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
}
_STOPPING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_FROM_TERMINAL = {signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCONT}
_IGNORED_BY_PYTHON = [signal.SIGPIPE, signal.SIGXFSZ]


@dataclass(frozen=True)
class Ending:
    """How the command ended."""

    exit_code: int
    """As a shell gives it: 128 + n for signal n."""
    stopped: bool
    """Someone asked it to end."""
    cpu_seconds: float
    """Of the command and of all descendants that were waited for."""

    @property
    def state(self) -> str:
        if self.stopped:
            return "stopped"
        return "failed" if self.exit_code else "finished"


class Command:
    """The running command.

    With a terminal it shares our process group, so that Ctrl-C and Ctrl-Z reach it from the
    kernel, once, and it may read the keyboard. Without one it gets a group of its own, so that a
    signal meant for our group reaches it through us only, once.

    Signals are blocked and waited for: no handler runs, none is lost, and each tells its sender.
    """

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Raises OSError where the command can't be started; `failure_code` says the exit code."""
        self._shares_group = _has_terminal()
        self._stop_asked = False
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED | {signal.SIGCHLD})
        group = {} if self._shares_group else {"setpgroup": 0}
        try:
            self.pid = os.posix_spawnp(
                words[0],
                list(words),
                dict(environment),
                setsigmask=list(before),
                setsigdef=_IGNORED_BY_PYTHON,
                **group,  # type: ignore[arg-type]
            )
        except OSError:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            raise

    def wait(self) -> Ending:
        """Until the command has ended; meanwhile pass on what it should hear."""
        while True:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                return self._ending(status, usage.ru_utime + usage.ru_stime)
            heard = signal.sigtimedwait(_FORWARDED | {signal.SIGCHLD}, 5)
            if heard and heard.si_signo != signal.SIGCHLD:
                self._hear(heard)

    def _hear(self, heard: signal.struct_siginfo) -> None:
        number = signal.Signals(heard.si_signo)
        self._stop_asked = self._stop_asked or number in _STOPPING
        by_kernel = heard.si_code > 0
        if self._shares_group and by_kernel and number in _FROM_TERMINAL:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)

    def _ending(self, status: int, cpu_seconds: float) -> Ending:
        code = os.waitstatus_to_exitcode(status)
        by_signal = -code in {int(number) for number in _STOPPING}
        exit_code = 128 - code if code < 0 else code
        return Ending(exit_code, self._stop_asked or by_signal, cpu_seconds)


def failure_code(error: OSError) -> int:
    """What a shell would exit with: 127 where there is no such command, else 126."""
    return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE


def _has_terminal() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    os.close(terminal)
    return True

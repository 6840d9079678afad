"""Runs the training command with its own signals, terminal and exit code."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab import launch
from trimtab.kept_stderr import KeptStderr
from trimtab.launch import Inheritance
from trimtab.sources.process import run_delay_seconds
from trimtab.timeline import process_started

if TYPE_CHECKING:
    import psutil

NOT_FOUND = 127
NOT_EXECUTABLE = 126

_OWN = {
    signal.SIGCHLD,
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSEGV,
    signal.SIGSYS,
    signal.SIGTRAP,
    signal.SIGPIPE,
    signal.SIGXFSZ,
}
"""Errors of the agent, and signals that stop it or that can't be caught."""
_FORWARDED = signal.valid_signals() - _OWN
_STOPPING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_FROM_TERMINAL = {
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGCONT,
    signal.SIGWINCH,
}
_LEFT_SECONDS = 2.0
_ASK_SECONDS = 0.5


@dataclass(frozen=True)
class CommandEnding:
    """Ending of the command."""

    exit_code: int | None
    """The exit code as in a shell: 128 + n for signal n. None if unknown."""
    stopped: bool
    """True if a signal or a rule asked the command to end."""
    cpu_seconds: float | None
    """The CPU time of the command and of all descendants that were waited for; None if unknown."""
    run_delay_seconds: float | None = None
    """The time for which the command waited for a core; None if unknown."""
    rule: str = ""
    """The rule that ended the command; empty if it wasn't a rule."""
    signal: int | None = None
    """The signal that ended the command itself, if one did."""

    @property
    def state(self) -> str:
        if self.stopped:
            return "stopped"
        return "failed" if self.exit_code else "finished"


class Command:
    """The running command.

    With a terminal the command shares the agent's process group: the kernel sends it Ctrl-C and
    Ctrl-Z once, and it may read the keyboard. Without a terminal the command gets its own group,
    and the agent forwards signals, once.

    Signals are blocked and waited for: no handler runs, none is lost, and the sender is known.
    """

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        inherited: Inheritance,
        stderr: KeptStderr | None = None,
    ) -> None:
        """Start the command. Raises OSError if it can't be started; `failure_code` gives the exit
        code.

        Args:
            stderr: keeps the command's last lines; None: it writes to the agent's standard error.
        """
        self._stderr = stderr
        self._shares_group = _has_terminal()
        self._stop_asked = False
        self._rule = ""
        self._stopping: list[psutil.Process] = []
        self._kill_at = math.inf
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED | {signal.SIGCHLD})
        try:
            target = stderr.target if stderr else None
            own_group = not self._shares_group
            self.pid = launch.start(words, environment, inherited, own_group, target)
        except OSError:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            if stderr:
                stderr.abandon()
            raise
        if stderr:
            stderr.start()

    def wait(self) -> CommandEnding:
        """Wait until the command has ended; meanwhile forward signals."""
        while True:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                waited_seconds = run_delay_seconds(self.pid)
                _, status, usage = os.wait4(self.pid, 0)
                self._kill_leftovers()
                return self._ending(status, usage.ru_utime + usage.ru_stime, waited_seconds)
            if time.monotonic() >= self._kill_at:
                self._kill()
            heard = signal.sigtimedwait(_FORWARDED | {signal.SIGCHLD}, self._patience())
            if heard and heard.si_signo != signal.SIGCHLD:
                self._forward(heard)

    def end(self, rule: str, grace_seconds: float) -> None:
        """End the command from another thread: SIGTERM to all of its processes, SIGKILL later.

        Args:
            rule: the one that ends it; empty: none does.
        """
        if self._stopping:
            return
        self._stop_asked, self._rule = True, rule
        self._stopping = self._tree()
        self._kill_at = time.monotonic() + grace_seconds
        self._signal_all(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGCHLD)  # wakes `wait`, which now has a deadline

    def _tree(self) -> list[psutil.Process]:
        """Return the command and its descendants; a launcher's workers may have their own
        groups.
        """
        import psutil  # takes megabytes, and only a run that is stopped needs it

        with suppress(psutil.Error):
            root = psutil.Process(self.pid)
            return [root, *root.children(recursive=True)]
        return []

    def _signal_all(self, number: signal.Signals) -> None:
        """Signal the whole group; if the agent is in it, each process instead."""
        if not self._shares_group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
        for process in self._stopping:
            with suppress(Exception):  # it has ended, or belongs to another user
                if self._shares_group or os.getpgid(process.pid) != self.pid:
                    process.send_signal(number)

    def _kill(self) -> None:
        known = {process.pid for process in self._stopping}
        self._stopping += [process for process in self._tree() if process.pid not in known]
        self._kill_at = math.inf
        self._signal_all(signal.SIGKILL)

    def _patience(self) -> float:
        return max(0.01, min(5.0, self._kill_at - time.monotonic()))

    def _kill_leftovers(self) -> None:
        """Kill processes that were ended and that outlive the command by 2 s.

        Otherwise they would keep the GPU without being measured.
        """
        if self._stopping and self._kill_at < math.inf:
            until = time.monotonic() + min(_LEFT_SECONDS, self._patience())
            while time.monotonic() < until and any(p.is_running() for p in self._stopping[1:]):
                time.sleep(0.05)
            self._signal_all(signal.SIGKILL)

    def _forward(self, heard: signal.struct_siginfo) -> None:
        number = heard.si_signo
        if number == signal.SIGWINCH and self._stderr:
            self._stderr.resize()
        is_ignored = signal.getsignal(number) is signal.SIG_IGN
        self._stop_asked |= number in _STOPPING and not is_ignored
        by_kernel = heard.si_code > 0
        reaches_both = self._shares_group and number in _FROM_TERMINAL
        if by_kernel and (reaches_both or number == signal.SIGXCPU):
            return  # the kernel sent it to the command, too, or for the agent's own CPU time
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)

    def _ending(
        self, status: int, cpu_seconds: float, waited_seconds: float | None
    ) -> CommandEnding:
        code = os.waitstatus_to_exitcode(status)
        by_signal = -code in {int(number) for number in _STOPPING}
        exit_code = 128 - code if code < 0 else code
        ended_by = -code if code < 0 else None
        is_stopped = self._stop_asked or by_signal
        return CommandEnding(
            exit_code, is_stopped, cpu_seconds, waited_seconds, self._rule, ended_by
        )


class AttachedProcess:
    """A process that the agent didn't start, or None for the machine."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid

    def wait(self) -> None:
        """Wait until the process ends or a signal arrives. Polls, as only a parent can wait."""
        started = _started(self._pid)
        while started == _started(self._pid):
            if signal.sigtimedwait(_STOPPING, _ASK_SECONDS):
                return


@contextmanager
def block_end_signals(pid: int | None) -> Iterator[AttachedProcess]:
    """Block the signals that end the agent, also in threads started inside."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield AttachedProcess(pid)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _started(pid: int | None) -> str:
    """Return a text that changes when the process has ended, even if the kernel reuses its id."""
    return "" if pid is None else process_started(pid)


def failure_code(error: OSError) -> int:
    """Return the exit code of a shell: 127 if there is no such command, or else 126."""
    return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE


def _has_terminal() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    os.close(terminal)
    return True

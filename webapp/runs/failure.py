"""Says why a run failed: exit code, signal, memory, and the last lines of standard error."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.text import capfirst

from rules import failure_causes
from webapp.runs.models import Run, Session

_GIB = 2**30
_KILLED_CODE = 128 + signal.SIGKILL
_SIGNALS = {
    signal.SIGSEGV: "invalid memory access",
    signal.SIGBUS: "bus error, often a full /dev/shm",
    signal.SIGABRT: "abort, often a failed check in native code",
    signal.SIGILL: "invalid instruction for this CPU",
    signal.SIGFPE: "arithmetic error",
    signal.SIGKILL: "sent by a person, a scheduler or the kernel",
    signal.SIGXCPU: "CPU time limit",
}
_CODES = {126: "command not executable", 127: "command not found"}
"""The exit codes that shells define (POSIX, 2.8.2)."""


@dataclass(frozen=True)
class FirstFailure:
    """The first failure among the last sessions of the run's nodes. None if unknown."""

    node: str
    words: str
    exit_code: int | None
    signal: str
    """The signal's name; empty if there was none or it is unknown."""
    oom_kills: int | None
    memory_bytes: int | None
    memory_limit_bytes: int | None
    is_killed_for_memory: bool

    @property
    def details(self) -> str:
        """Exit code and signal, unless `words` has them."""
        code = "" if self.exit_code is None else f"exit code {self.exit_code}"
        details = [] if code in self.words.lower() else [code]
        if self.signal and self.signal not in self.words:
            details.append(f"signal {self.signal}")
        return ", ".join(details)


def failure_of(run: Run, sessions: Iterable[Session]) -> FirstFailure | None:
    """Return the run's failure, or None if the run didn't fail. A run that a rule or person stopped
    hasn't failed.
    """
    failed = [session for session in sessions if session.end_state == Run.FAILED]
    if run.state != Run.FAILED or not failed:
        return None
    newest = max(session.node.attempt.number for session in failed)
    last = [session for session in failed if session.node.attempt.number == newest]
    return _failure(min(last, key=lambda session: session.interval[1]))


def stderr_of(sessions: Iterable[Session]) -> list[str]:
    """Return the last lines of the session that ended last and kept them."""
    kept = sorted((s for s in sessions if s.stderr), key=lambda session: session.interval[1])
    return kept[-1].stderr if kept else []


def _failure(session: Session) -> FirstFailure:
    facts = session.ending
    return FirstFailure(
        node=str(session.node),
        words=ending_words(session),
        exit_code=session.exit_code,
        signal=_signal_name(_signal(session)),
        oom_kills=facts.get("oom_kills"),
        memory_bytes=facts.get("memory_bytes"),
        memory_limit_bytes=facts.get("memory_limit_bytes"),
        is_killed_for_memory=bool(facts.get("oom_kills")) and _is_own_kill(session),
    )


def ending_words(session: Session) -> str:
    """Return how a failed session ended, in words."""
    facts = session.ending
    number = _signal(session)
    if facts.get("oom_kills") and _is_own_kill(session):
        if facts.get("oom_scope") == "container" or facts.get("oom_process"):
            return _killed_for_memory(session, _is_killed(session))
        return f"Killed by the kernel, probably for memory{_amount(session)}"
    if number is not None:
        name, meaning = _signal_name(number), _SIGNALS.get(signal.Signals(number))
        return f"Ended by {name}" + (f": {meaning}" if meaning else "")
    if session.exit_code is None:
        return "The exit code is not known"
    code = _code(session.exit_code)
    cause = failure_causes.cause_in("\n".join(session.stderr), session.exit_code)
    return f"{failure_causes.WORDS[cause]}, {code}" if cause else capfirst(code)


def _is_killed(session: Session) -> bool:
    return _signal(session) == signal.SIGKILL or session.exit_code == _KILLED_CODE


def _is_own_kill(session: Session) -> bool:
    """Return whether it was the run's process that the kernel killed, not another program's."""
    facts = session.ending
    is_own = facts.get("oom_scope") == "container" or bool(facts.get("oom_process"))
    return is_own or _is_killed(session)


def _killed_for_memory(session: Session, is_command: bool) -> str:
    """Say that memory ran out. A worker that is killed makes its parent fail with an exit code of
    its own.
    """
    name = session.ending.get("oom_process")
    if is_command:
        return f"Killed by the kernel for memory{_amount(session)}"
    who = f"process {name}" if name else "a process of the run"
    code = "" if session.exit_code is None else f", then exit code {session.exit_code}"
    return f"The kernel killed {who} for memory{_amount(session)}{code}"


def _amount(session: Session) -> str:
    used = session.ending.get("memory_bytes")
    limit = session.ending.get("memory_limit_bytes")
    if not limit:
        return ""
    whole = f"{_gib(limit)} GiB"
    return f": {_gib(used)} of {whole}" if used else f": limit {whole}"


def _gib(size_bytes: int) -> str:
    """Return GiB with one decimal, rounded down: a full machine has used no more than it has."""
    return f"{int(10 * size_bytes / _GIB) / 10:.1f}".removesuffix(".0")


def _code(code: int) -> str:
    """Return an exit code in words. A shell reports a signal of its command as 128 + n."""
    if code in _CODES:
        return f"exit code {code}: {_CODES[code]}"
    name = _signal_name(code - 128)
    return f"exit code {code}: a command was ended by {name}" if name else f"exit code {code}"


def _signal(session: Session) -> int | None:
    number = session.ending.get("signal")
    return number if number is not None and _signal_name(number) else None


def _signal_name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return ""

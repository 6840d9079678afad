"""Keeps the processes of the service running; the one process that `manage.py up` stays.

It and what it imports need the standard library only: an idle supervisor costs 13 MB instead of the
60 MB of a loaded Django. The plan of what to run comes from `stack.py` as JSON on an inherited file
descriptor, since it holds secrets that have no place in `ps`.

No thread is ever started here, so `preexec_fn` is safe.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from webapp.service.child import Child
from webapp.service.web_health import Health

UNANSWERED_SECONDS = 25.0
"""The longest time without an answer, longer than SQLite makes requests wait for one that writes:
20 s."""
STALL_SECONDS = 5.0
"""The length of a pause after which missing answers aren't counted: the supervisor itself was
stopped for so long and received none."""
READY_SECONDS, START_TIMES = 60.0, 10
"""The longest time from the web server's first sign of life to its first answer: the larger of the
first figure, and so many times what all processes needed to start."""
TELL_SECONDS = 30.0
"""The time between two lines about a start that takes long."""
LARGEST_LOG_BYTES = 20 * 1024 * 1024
STARTS_BEFORE_GIVING_UP = 3
ANNOUNCEMENT_VARIABLE = "TRIMTAB_ANNOUNCEMENT"
"""The variable that names the descriptor to which the web server writes what is printed once all is
ready."""
LARGEST_ANNOUNCEMENT_BYTES = 64 * 1024
STOPPING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


@dataclass
class Supervisor:
    """Runs a plan: `children` in start order, `healthz`, `logs`, `then`, `exit_after`."""

    plan: dict[str, Any]
    children: list[Child] = field(default_factory=list)
    exit_code: int | None = None
    signals: int = field(default_factory=lambda: _signal_pipe())
    announcement: Announcement = field(default_factory=lambda: Announcement())
    started_at: float = field(default_factory=time.monotonic)
    looked_at: float = field(default_factory=time.monotonic)
    told_at: float = field(default_factory=time.monotonic)
    is_ready: bool = False

    def run(self) -> int:
        self.children = [Child(**each) for each in self.plan["children"]]
        self.health = Health(**self.plan["healthz"])
        try:
            self._start_all()
            self._after_ready()
            while self.exit_code is None:
                self._wait(0.1 if any(each.process is None for each in self.children) else 1.0)
        finally:
            self._stop_all()
        return self.exit_code or 0

    # Starting

    def _start_all(self) -> None:
        """Start all processes side by side. While they advance they may take their time."""
        for child in self.children:
            self._start(child)
        while self.exit_code is None and not self._is_up():
            self._wait(0.1)
            for child in self.children:
                if child.starts > STARTS_BEFORE_GIVING_UP:
                    self._give_up(child, "fails to start")
                    return

    def _start(self, child: Child) -> None:
        announces = child.name == "web" and not self.is_ready
        told = {ANNOUNCEMENT_VARIABLE: self.announcement.write_end} if announces else {}
        child.start(self._log_file(child), told)

    def _is_up(self) -> bool:
        settled = [each.settled_at() for each in self.children]
        now = time.monotonic()
        if None in settled:
            self._tell_of_slow_start(now)
            return False
        if self.health.is_200():
            return True
        settled_at = max(at for at in settled if at is not None)
        if now - settled_at > max(READY_SECONDS, START_TIMES * (settled_at - self.started_at)):
            self._give_up(self._child("web"), "has started but does not answer /healthz")
        return False

    def _tell_of_slow_start(self, now: float) -> None:
        if now - self.told_at < TELL_SECONDS:
            return
        self.told_at = now
        slow = [each for each in self.children if each.settled_at() is None]
        words = ", ".join(f"{each.name} ({each.cpu_seconds:.1f} s of CPU time)" for each in slow)
        _print(f"Still starting after {now - self.started_at:.0f} s: {words}")

    def _after_ready(self) -> None:
        if self.exit_code is not None:
            return
        self.is_ready = True
        _print(self.announcement.text())
        if self.plan.get("then"):
            then = Child("then", self.plan["then"], signal.SIGTERM, signal.SIGTERM, 5)
            then.start(None)
            self.children.append(then)

    def _give_up(self, child: Child, how: str) -> None:
        log = self._log_path(child)
        _print(f"The {child.name} process {how}. The end of {log}:\n{_tail(log)}")
        self.exit_code = 1

    # Watching

    def _wait(self, seconds: float) -> None:
        """Wait until a signal arrives or the time has passed; then look after everything."""
        awaited = [self.signals, *(each.pulse for each in self.children if each.pulse is not None)]
        if self.health.question is not None:
            awaited.append(self.health.question.fileno())
        if self.signals in select.select(awaited, [], [], seconds)[0]:
            received = set(os.read(self.signals, 512))
            if received & STOPPING:
                self.exit_code = 0
                return
        self._end_what_hangs()
        for child in list(self.children):
            self._look_after(child)

    def _end_what_hangs(self) -> None:
        self.health.listen()
        for child in self.children:
            child.listen()
        now = time.monotonic()
        if now - self.looked_at > STALL_SECONDS:
            self._forgive(now)
        self.looked_at = now
        for child in self.children:
            if how := child.hangs(now):
                self._end_hung(child, how)
        if self.is_ready:
            self._end_unanswering(now)

    def _forgive(self, now: float) -> None:
        self.health.answered_at = now
        for child in self.children:
            child.forgive(now)

    def _end_unanswering(self, now: float) -> None:
        """End a web server whose loop turns and that nevertheless doesn't answer."""
        command = self._child("web").command
        every = [(each, each.settled_at()) for each in self.children if each.command == command]
        web = [(child, at) for child, at in every if at is not None]
        if not web:
            return
        self.health.ask(now)
        if now - max(self.health.answered_at, *(at for _, at in web)) > UNANSWERED_SECONDS:
            self.health.forget()
            for child, _ in web:
                self._end_hung(child, "/healthz is not answered")

    def _end_hung(self, child: Child, how: str) -> None:
        child.end_hung()
        self._tell(child, f"hangs ({how}); killed, restarts in {child.delay_seconds / 2:g} s")

    def _look_after(self, child: Child) -> None:
        ending = child.collect_ending()
        if ending and child.name == "then":
            self._then_ended(child, ending)
            return
        if ending:
            self._tell(child, f"{ending}; restarts in {child.delay_seconds / 2:g} s")
        if child.is_due():
            self._start(child)
        self._shorten_log(child)

    def _then_ended(self, then: Child, ending: str) -> None:
        self.children.remove(then)
        if self.plan.get("exit_after"):
            self.exit_code = 0 if ending == "ended (exit code 0)" else 1

    def _tell(self, child: Child, what: str) -> None:
        _print(f"{child.name} {what}")
        if self.plan["logs"]:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            line = json.dumps({"time": now, "process": child.name, "event": what})
            with (Path(self.plan["logs"]) / "supervise.log").open("a", encoding="utf-8") as log:
                log.write(f"{line}\n")

    # Stopping

    def _stop_all(self) -> None:
        """Stop the processes in reverse: first those that accept work, Redis last."""
        for child in reversed(self.children):
            child.stop()

    # Logs

    def _child(self, name: str) -> Child:
        return next(child for child in self.children if child.name == name)

    def _log_path(self, child: Child) -> Path:
        return Path(self.plan["logs"] or ".") / f"{child.name}.log"

    def _log_file(self, child: Child) -> IO[bytes] | None:
        return self._log_path(child).open("ab") if self.plan["logs"] else None

    def _shorten_log(self, child: Child) -> None:
        """Keep one older part. The writer appends, so cutting the file under it is safe."""
        path = self._log_path(child)
        if not path.exists() or path.stat().st_size < LARGEST_LOG_BYTES:
            return
        shutil.copyfile(path, path.with_suffix(".log.1"))
        os.truncate(path, 0)


class Announcement:
    """The web server's message once all is ready. It fits the pipe, so nobody waits."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()

    def text(self) -> str:
        """Return the whole message. From here on no process can add to it."""
        os.close(self.write_end)
        os.set_blocking(self._read_end, False)
        said = b""
        with contextlib.suppress(BlockingIOError):
            said = os.read(self._read_end, LARGEST_ANNOUNCEMENT_BYTES)
        os.close(self._read_end)
        return said.decode()


def _signal_pipe() -> int:
    """Return a descriptor from which every signal can be read as one byte: nothing is ever
    missed.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for each in {*STOPPING, signal.SIGCHLD}:
        signal.signal(each, lambda *_: None)
    return read_end


def _tail(path: Path, lines: int = 20) -> str:
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"


def _print(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def main(descriptor: int) -> int:
    with os.fdopen(descriptor, encoding="utf-8") as plan:
        return Supervisor(json.load(plan)).run()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))

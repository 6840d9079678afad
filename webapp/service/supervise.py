"""Keeps the processes of the service running; the one process that `manage.py up` stays.

Run by path, with the standard library only and nothing else of ours: an idle supervisor costs
13 MB instead of the 60 MB of a loaded Django. The plan of what to run comes from `stack.py` as JSON
on an inherited file descriptor, since it holds secrets that have no place in `ps`.

No thread is ever started here, so `preexec_fn` is safe.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

READY_SECONDS, SETTLED_SECONDS = 60, 2
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.2, 30.0
STEADY_SECONDS = 30
LARGEST_LOG_BYTES = 20 * 1024 * 1024
STARTS_BEFORE_GIVING_UP = 3
STOPPING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
PR_SET_PDEATHSIG = 1


@dataclass
class Child:
    """One process that should always run."""

    name: str
    command: list[str]
    stop_signal: int
    orphan_signal: int
    patience_seconds: float
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_again_at: float = 0.0
    delay_seconds: float = FIRST_DELAY_SECONDS
    starts: int = 0

    def start(self, log: IO[bytes] | None) -> None:
        """In a process group of its own: Ctrl-C reaches the supervisor alone, which stops all."""
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
            preexec_fn=dies_with_parent(self.orphan_signal),
        )
        self.started_at = time.monotonic()
        self.starts += 1

    def ended(self) -> str | None:
        """How it ended, once; None while it runs or is known to be down."""
        if self.process is None or self.process.poll() is None:
            return None
        code = self.process.returncode
        self.kill_group()
        self.process = None
        self._plan_restart()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def _plan_restart(self) -> None:
        """At once after a steady life; after a short one with a delay that doubles."""
        now = time.monotonic()
        steady = now - self.started_at > STEADY_SECONDS
        self.delay_seconds = FIRST_DELAY_SECONDS if steady else self.delay_seconds
        self.start_again_at = now + self.delay_seconds
        self.delay_seconds = min(self.delay_seconds * 2, LONGEST_DELAY_SECONDS)

    def is_due(self) -> bool:
        return self.process is None and time.monotonic() >= self.start_again_at

    def stop(self) -> None:
        """Ask, wait, then kill what is left of its process group."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(self.patience_seconds)
        except subprocess.TimeoutExpired:
            self.kill_group()
            self.process.wait()
        self.kill_group()
        self.process = None

    def kill_group(self) -> None:
        """Its own children must not outlive it: a killed Celery leaves its pool behind."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


def dies_with_parent(orphan_signal: int, parent: int | None = None) -> Any:
    """What a child runs before its program: Linux signals it when its parent is killed.

    The parent (default: this process) may already be gone: then the child ends here.
    """
    parent_pid = os.getpid() if parent is None else parent
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

    def prepare() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, orphan_signal)
        if os.getppid() != parent_pid:
            os._exit(1)

    return prepare


@dataclass
class Supervisor:
    """Runs a plan: `children` in start order, `healthz`, `announcement`, `then`, `exit_after`."""

    plan: dict[str, Any]
    children: list[Child] = field(default_factory=list)
    exit_code: int | None = None
    signals: int = field(default_factory=lambda: _signal_pipe())

    def run(self) -> int:
        self.children = [Child(**each) for each in self.plan["children"]]
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
        for child in self.children:
            child.start(self._log_file(child))
        deadline = time.monotonic() + READY_SECONDS
        while self.exit_code is None and not (self._all_settled() and self._answers()):
            hopeless = [each for each in self.children if each.starts > STARTS_BEFORE_GIVING_UP]
            if hopeless or time.monotonic() > deadline:
                self._give_up(hopeless[0] if hopeless else self._child("web"))
                return
            self._wait(0.1)

    def _all_settled(self) -> bool:
        """What can't start at all ends within this time: a wrong setting, a failed import."""
        now = time.monotonic()
        return all(
            each.process is not None and now - each.started_at > SETTLED_SECONDS
            for each in self.children
        )

    def _answers(self) -> bool:
        """Whether the web server answers as if asked from outside."""
        probe = self.plan["healthz"]
        headers = {"Host": probe["host_header"], "X-Forwarded-Proto": probe["scheme"]}
        connection = http.client.HTTPConnection(probe["host"], probe["port"], timeout=2)
        try:
            connection.request("GET", "/healthz", headers=headers)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _after_ready(self) -> None:
        if self.exit_code is not None:
            return
        _print(self.plan["announcement"])
        if self.plan.get("then"):
            then = Child("then", self.plan["then"], signal.SIGTERM, signal.SIGTERM, 5)
            then.start(None)
            self.children.append(then)

    def _give_up(self, child: Child) -> None:
        log = self._log_path(child)
        _print(f"The {child.name} process fails to start. The end of {log}:\n{_tail(log)}")
        self.exit_code = 1

    # Watching

    def _wait(self, seconds: float) -> None:
        """Until a signal or the time has passed; then look after everything."""
        if select.select([self.signals], [], [], seconds)[0]:
            received = set(os.read(self.signals, 512))
            if received & STOPPING:
                self.exit_code = 0
                return
        for child in list(self.children):
            self._look_after(child)

    def _look_after(self, child: Child) -> None:
        ending = child.ended()
        if ending and child.name == "then":
            self._then_ended(child, ending)
            return
        if ending:
            self._tell(child, f"ended ({ending}); restarts in {child.delay_seconds / 2:g} s")
        if child.is_due():
            child.start(self._log_file(child))
        self._shorten_log(child)

    def _then_ended(self, then: Child, ending: str) -> None:
        self.children.remove(then)
        if self.plan.get("exit_after"):
            self.exit_code = 0 if ending == "exit code 0" else 1

    def _tell(self, child: Child, what: str) -> None:
        _print(f"{child.name} {what}")
        if self.plan["logs"]:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            line = json.dumps({"time": now, "process": child.name, "event": what})
            with (Path(self.plan["logs"]) / "supervise.log").open("a", encoding="utf-8") as log:
                log.write(f"{line}\n")

    # Stopping

    def _stop_all(self) -> None:
        """In reverse: first those that take work in, Redis last."""
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


def _signal_pipe() -> int:
    """A descriptor from which every signal can be read as one byte: nothing is ever missed."""
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

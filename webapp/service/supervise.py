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
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

READY_SECONDS, SETTLED_SECONDS = 60, 2
FIRST_SIGN_SECONDS = 120
"""From a start to the first sign of life, before the process counts as hung."""
ASK_EVERY_SECONDS, UNANSWERED_SECONDS = 2.0, 25.0
"""Longer than SQLite makes requests wait for one that writes: 20 s."""
STOPPED_SECONDS, STALL_SECONDS = 20.0, 5.0
"""A supervisor that was itself stopped for so long received no answers; that is nobody's fault."""
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.2, 30.0
STEADY_SECONDS, STEADY_AFTER_HANG_SECONDS = 30, 600
LARGEST_LOG_BYTES = 20 * 1024 * 1024
STARTS_BEFORE_GIVING_UP = 3
STOPPING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
PR_SET_PDEATHSIG = 1
PULSE_VARIABLE = "TRIMTAB_PULSE"
"""Names the descriptor to which a child gives its signs of life."""


@dataclass
class Child:
    """One process that should always run."""

    name: str
    command: list[str]
    stop_signal: int
    orphan_signal: int
    patience_seconds: float
    silence_seconds: float | None = None
    """After so long without a sign of life it hangs; None: it gives none."""
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_again_at: float = 0.0
    delay_seconds: float = FIRST_DELAY_SECONDS
    starts: int = 0
    pulse: int | None = None
    """The descriptor that its signs of life come from."""
    sign_at: float | None = None
    ran_at: float = 0.0
    """When it was last seen running, not stopped by a signal."""

    def start(self, log: IO[bytes] | None) -> None:
        """In a process group of its own: Ctrl-C reaches the supervisor alone, which stops all."""
        signs = self._pulse_end()
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | ({PULSE_VARIABLE: str(signs[0])} if signs else {}),
            pass_fds=signs,
            process_group=0,
            preexec_fn=dies_with_parent(self.orphan_signal),
        )
        for fd in signs:
            os.close(fd)
        self.started_at = self.ran_at = time.monotonic()
        self.sign_at = None
        self.starts += 1

    def _pulse_end(self) -> list[int]:
        """The end of a new pipe that the process writes its signs of life to."""
        if self.silence_seconds is None:
            return []
        self._stop_listening()
        self.pulse, write_end = os.pipe()
        for fd in (self.pulse, write_end):
            os.set_blocking(fd, False)
        return [write_end]

    def _stop_listening(self) -> None:
        if self.pulse is not None:
            os.close(self.pulse)
        self.pulse = None

    def listen(self) -> None:
        """Note whether it has given signs of life since the last time."""
        if self.pulse is None:
            return
        with contextlib.suppress(BlockingIOError):
            if os.read(self.pulse, 65_536):
                self.sign_at = time.monotonic()
            else:
                self._stop_listening()

    def hangs(self, now: float) -> str | None:
        """How; None: it doesn't, as far as can be seen."""
        if self.process is None:
            return None
        if not _is_stopped(self.process.pid):
            self.ran_at = now
        if now - self.ran_at > STOPPED_SECONDS:
            return "stopped by a signal"
        if self.silence_seconds is None:
            return None
        patience = FIRST_SIGN_SECONDS if self.sign_at is None else self.silence_seconds
        is_silent = now - (self.sign_at or self.started_at) > patience
        return "no sign of life" if is_silent else None

    def forgive(self, now: float) -> None:
        self.ran_at = now
        self.sign_at = self.sign_at and now

    def end_hung(self) -> None:
        """It has ended, so nothing is expected of it."""
        if self.process is not None:
            self.kill_group()
            self.process.wait()
            self.process = None
            self._plan_restart(STEADY_AFTER_HANG_SECONDS)

    def ended(self) -> str | None:
        """How it ended, once; None while it runs or is known to be down."""
        if self.process is None or self.process.poll() is None:
            return None
        code = self.process.returncode
        self.kill_group()
        self.process = None
        self._plan_restart(STEADY_SECONDS)
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def _plan_restart(self, steady_seconds: float) -> None:
        """At once after a steady life; after a short one with a delay that doubles."""
        now = time.monotonic()
        steady = now - self.started_at > steady_seconds
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


def _is_stopped(pid: int) -> bool:
    """By SIGSTOP or a debugger; False where nobody can tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] in (b"T", b"t")


@dataclass
class Health:
    """Asks the web server for `/healthz` now and then, and never waits for the answer."""

    host: str
    port: int
    host_header: str
    scheme: str
    asked_at: float = 0.0
    answered_at: float = 0.0
    question: socket.socket | None = None

    def ask(self, now: float) -> None:
        if self.question is not None or now - self.asked_at < ASK_EVERY_SECONDS:
            return
        self.asked_at = now
        head = f"GET /healthz HTTP/1.0\r\nHost: {self.host_header}\r\n"
        with contextlib.suppress(OSError):
            # The kernel connects, even while the process hangs.
            self.question = socket.create_connection((self.host, self.port), timeout=1)
            self.question.sendall(f"{head}X-Forwarded-Proto: {self.scheme}\r\n\r\n".encode())
            self.question.setblocking(False)

    def listen(self) -> None:
        """Any answer will do: even a refusal shows that somebody is at work."""
        if self.question is None:
            return
        try:
            if self.question.recv(4096).startswith(b"HTTP/"):
                self.answered_at = time.monotonic()
        except BlockingIOError:
            return
        except OSError:
            pass
        self.forget()

    def forget(self) -> None:
        if self.question is not None:
            self.question.close()
        self.question = None

    def is_200(self) -> bool:
        """Whether the web server answers as if asked from outside. Waits for at most 2 s."""
        headers = {"Host": self.host_header, "X-Forwarded-Proto": self.scheme}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=2)
        try:
            connection.request("GET", "/healthz", headers=headers)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@dataclass
class Supervisor:
    """Runs a plan: `children` in start order, `healthz`, `announcement`, `then`, `exit_after`."""

    plan: dict[str, Any]
    children: list[Child] = field(default_factory=list)
    exit_code: int | None = None
    signals: int = field(default_factory=lambda: _signal_pipe())
    looked_at: float = field(default_factory=time.monotonic)
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
        for child in self.children:
            child.start(self._log_file(child))
        deadline = time.monotonic() + READY_SECONDS
        while self.exit_code is None and not (self._all_settled() and self.health.is_200()):
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

    def _after_ready(self) -> None:
        if self.exit_code is not None:
            return
        self.is_ready = True
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
        """The loop of a web server turns, and yet nobody answers."""
        command = self._child("web").command
        web = [each for each in self.children if each.command == command and each.process]
        if not web:
            return
        self.health.ask(now)
        ready_by = max(each.started_at for each in web) + READY_SECONDS
        if now - max(self.health.answered_at, ready_by - UNANSWERED_SECONDS) > UNANSWERED_SECONDS:
            self.health.forget()
            for child in web:
                self._end_hung(child, "/healthz is not answered")

    def _end_hung(self, child: Child, how: str) -> None:
        child.end_hung()
        self._tell(child, f"hangs ({how}); killed, restarts in {child.delay_seconds / 2:g} s")

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

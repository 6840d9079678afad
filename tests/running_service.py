"""The real service, started by `manage.py up`, for tests that need real processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.migrated import migrated_database

CHECKOUT = Path(__file__).resolve().parent.parent
# What tells each process of the service from the others in its command line.
MARKS = {"redis": "redis.sock", "worker": " worker ", "beat": " beat ", "web": "webapp.web_server"}


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def wait_until(
    holds: Callable[[], object],
    seconds: float,
    what: str,
    instead: Callable[[], object] = str,
) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what} {instead()}"
        time.sleep(0.05)


def manage(data_dir: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    """Run `manage.py` with its own data folder and a Redis of its own."""
    inherited = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    inherited.pop("DATABASE_URL", None)
    return subprocess.Popen(
        [sys.executable, "manage.py", *words],
        cwd=CHECKOUT,
        env=inherited | {"TRIMTAB_DATA_DIR": str(data_dir)} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def prepare(data_dir: Path) -> None:
    """Puts empty tables into an empty data folder. A folder that is in use stays as it is."""
    if data_dir.is_dir() and any(data_dir.iterdir()):
        return
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copy(migrated_database(), data_dir)


@dataclass
class Service:
    """`up` on a data folder and a free port. Start it, kill parts of it, stop it."""

    data_dir: Path
    port: int = field(default_factory=free_port)
    has_base_url: bool = True
    """False if `up` starts a second time, once it knows its address."""
    has_tables: bool = True
    """False if `up` starts from an empty folder, as for a new user, and makes them."""
    output: str = ""
    supervisor: psutil.Popen | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.data_dir / "agent-token").read_text()

    @property
    def sign_in_link(self) -> str:
        found = re.search(rf"{self.url}/\S+", self.output.split("Sign in", 1)[1])
        assert found is not None, self.output
        return found[0]

    def start(self, **variables: str) -> Service:
        if self.has_tables:
            prepare(self.data_dir)
        if self.has_base_url:
            variables = {"TRIMTAB_BASE_URL": self.url} | variables
        started = manage(self.data_dir, "up", "--bind", f"127.0.0.1:{self.port}", **variables)
        self.supervisor = psutil.Process(started.pid)
        self.process = started
        self.output = self._read_announcement()
        return self

    def _read_announcement(self) -> str:
        lines = []
        for line in self.process.stdout or ():
            lines.append(line)
            if "Ctrl-C" in line:
                return "".join(lines)
        raise AssertionError("up ended: " + "".join(lines))

    def tree(self) -> list[psutil.Process]:
        assert self.supervisor is not None
        return [self.supervisor, *self.supervisor.children(recursive=True)]

    def part(self, name: str) -> psutil.Process | None:
        """Return the process of that name that the supervisor itself started."""
        assert self.supervisor is not None
        for child in self.supervisor.children():
            if MARKS[name] in " ".join(command_line(child)):
                return child
        return None

    def kill(self, name: str) -> int:
        """`kill -9`; returns the process id that is no more."""
        part = self.part(name)
        assert part is not None, f"{name} is not running"
        part.kill()
        return int(part.pid)

    def has_new(self, name: str, old_pid: int) -> bool:
        part = self.part(name)
        return part is not None and part.pid != old_pid

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=2) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def stop(self, stop_signal: int = signal.SIGINT) -> int:
        """Returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(stop_signal)
        return self.process.wait(30)


def kill_all(processes: Iterable[psutil.Process | subprocess.Popen[Any]]) -> None:
    """`kill -9`. Those that have ended meanwhile, as some do with the first, are left."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def command_line(process: psutil.Process) -> list[str]:
    """Return its command line, empty once it is gone."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []

"""The process that converts one upload, as the worker sees it. See `advisor.importers.process`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
from django.conf import settings

from advisor.importers.process.ending import Ending
from advisor.importers.process.task import Places, Task

_NAMES = {"HOME", "PATH", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"}
_PREFIXES = ("AWS_", "LC_", "PYTHON")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
_MOST_STAGE_CHARS, _LOG_BYTES = 120, 4000


class ConversionProcess:
    """A started conversion."""

    def __init__(self, task: Task, folder: Path) -> None:
        """Start it. The folder is its own, and may hold what an earlier one fetched."""
        self._places = Places(folder)
        self._places.ending.unlink(missing_ok=True)
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "advisor.importers.process", str(folder), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=settings.BASE_DIR,
                env=dict(_environment(folder)),
                process_group=0,
            )
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with self._process.stdin as stdin, suppress(BrokenPipeError):
            stdin.write(task.to_json())

    @property
    def stage(self) -> str:
        """Return what the process does, for people; empty if it hasn't said yet."""
        try:
            return self._places.stage.read_text(encoding="utf-8")[:_MOST_STAGE_CHARS]
        except FileNotFoundError:
            return ""

    def poll_ending(self) -> Ending | None:
        """Return how the process ended, or None if it continues."""
        pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
        if not pid:
            return None
        self._process.returncode = os.waitstatus_to_exitcode(status)
        cpu_seconds = used.ru_utime + used.ru_stime
        said = Ending.read(self._places.ending)
        if said is not None:
            return replace(said, cpu_seconds=cpu_seconds)
        if self._process.returncode == 0:
            return Ending("busy", cpu_seconds=cpu_seconds)
        return Ending("died", self._last_words, cpu_seconds)

    @property
    def _last_words(self) -> str:
        code = self._process.returncode
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"The conversion's process ended: {how}"

    @property
    def log(self) -> str:
        """The end of what it printed."""
        with suppress(FileNotFoundError):
            return self._log.read_bytes()[-_LOG_BYTES:].decode(errors="replace")
        return ""

    def kill(self) -> float:
        """End it at once, with the process that it confines. Return the CPU seconds of both."""
        cpu_seconds = self._cpu_seconds()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        return cpu_seconds

    def _cpu_seconds(self) -> float:
        """Return the CPU seconds of both processes so far. The kernel tells it afterwards only to
        the parent of each.
        """
        seconds = 0.0
        with suppress(psutil.NoSuchProcess):
            outer = psutil.Process(self._process.pid)
            for each in (outer, *outer.children()):
                used = each.cpu_times()
                seconds += used.user + used.system
        return seconds


def _environment(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the variables that reading S3 needs. The service's own secrets stay here."""
    for name, value in os.environ.items():
        if name in _NAMES or name.startswith(_PREFIXES) or name.upper() in _PROXIES:
            yield name, value
    yield "TMPDIR", str(folder)

"""The processes of the service, and the hand-over from Django to the supervisor."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from webapp import env
from webapp.service import private_redis
from webapp.service.address import Bind

# Python gives memory back late; a fresh child does at once.
TASKS_PER_CHILD, LARGEST_CHILD_KIB = 500, 400_000
LOCK_NAME = "up.lock"
# Signs of life come every second or two. Beat waits for Redis, as long as its timeouts take.
SILENCE_SECONDS, BEAT_SILENCE_SECONDS = 20, 60


class AlreadyRunningError(Exception):
    """Another supervisor holds this data folder; its URL is the message."""


@dataclass(frozen=True)
class Stack:
    """One service on one data folder."""

    bind: Bind
    redis_server: str | None
    """The program; None if REDIS_URL names a Redis that somebody else runs."""
    is_verbose: bool = False

    def hand_over(self, lock: int, then: list[str] | None, exit_after: bool) -> NoReturn:
        """Become the supervisor. Redis, worker, beat and web start side by side.

        `then` runs once when the service answers; with `exit_after` its exit code ends all.
        """
        plan = {
            "children": self._children(),
            "healthz": self._healthz(),
            "logs": None if self.is_verbose else str(log_folder()),
            "then": then,
            "exit_after": exit_after,
        }
        os.environ.update(self._environment())
        os.set_inheritable(lock, True)
        words = [sys.executable, "-m", "webapp.service.supervise", str(_piped(plan))]
        os.execv(sys.executable, words)  # noqa: S606

    def _environment(self) -> dict[str, str]:
        own = {
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            "TRIMTAB_BASE_URL": settings.BASE_URL,
            "TRIMTAB_DATA_DIR": str(settings.DATA_DIR),
            "PYTHONPATH": os.pathsep.join([str(settings.BASE_DIR), *_python_path()]),
            "PYTHONUNBUFFERED": "1",
            # The setting was checked by `up` already.
            "CELERY_SKIP_CHECKS": "1",
        }
        if self.redis_server:
            own["REDIS_URL"] = private_redis.url(settings.DATA_DIR)
        if self.is_verbose:
            own.setdefault("TRIMTAB_LOG_FORMAT", "text")
        return own

    def _healthz(self) -> dict[str, Any]:
        public = urlsplit(settings.BASE_URL)
        return {
            "host": self.bind.local_host(),
            "port": self.bind.port,
            "host_header": public.netloc,
            "scheme": public.scheme,
        }

    def _children(self) -> list[dict[str, Any]]:
        children = []
        if self.redis_server:
            redis = private_redis.command(self.redis_server, settings.DATA_DIR)
            children.append(_child("redis", redis))
        # SIGKILL: an orphaned worker may hang while it shuts down in order, and need not: the rows
        # of its tasks make them run again. Its pool dies with it, see `webapp.celery`.
        worker = _child("worker", _worker(), SILENCE_SECONDS)
        children.append(worker | {"orphan_signal": int(signal.SIGKILL)})
        beat = [*_celery("webapp.service.beat"), "beat", "--pidfile="]
        children.append(_child("beat", beat, BEAT_SILENCE_SECONDS))
        names = ["web", *(f"web-{number}" for number in range(2, _web_processes() + 1))]
        children += [_child(name, _web(self.bind), SILENCE_SECONDS) for name in names]
        return children


def _python_path() -> list[str]:
    """Return the folders on Python's path after this checkout: `up` may be called from any
    folder.
    """
    given = os.environ.get("PYTHONPATH", "")
    return [given] if given else []


def _child(name: str, command: list[str], silence_seconds: float | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "command": command,
        "stop_signal": int(signal.SIGTERM),
        "orphan_signal": int(signal.SIGTERM),
        "patience_seconds": 8,
        "silence_seconds": silence_seconds,
    }


def _celery(application: str) -> list[str]:
    return [sys.executable, "-m", "celery", "-A", application]


def _worker() -> list[str]:
    alone = ["--without-gossip", "--without-mingle"]
    limits = [
        f"--autoscale={settings.WORKER_PROCESSES},1",
        f"--max-tasks-per-child={TASKS_PER_CHILD}",
        f"--max-memory-per-child={LARGEST_CHILD_KIB}",
    ]
    # Pages and uploads come first on a machine with few cores.
    celery = ["nice", "-n", "5", *_celery("webapp")]
    return [*celery, "worker", "--pool=prefork", "--loglevel=INFO", *alone, *limits]


def _web(bind: Bind) -> list[str]:
    return [sys.executable, "-m", "webapp.web_server", "--bind", str(bind)]


def _web_processes() -> int:
    """Return the number of web processes; one if the setting is invalid, because then the process
    itself reports the wrong value.
    """
    try:
        return env.integer("TRIMTAB_WEB_WORKERS", 1, low=1)
    except ImproperlyConfigured:
        return 1


def log_folder() -> Path:
    folder = Path(settings.DATA_DIR) / "logs"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def shorten_path(path: Path) -> str:
    """Return the path relative to the current folder if that is shorter to read and still works
    when pasted.
    """
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def lock_data_folder() -> int:
    """Hold the data folder until this process and all that it becomes has ended.

    Raises AlreadyRunningError with the URL of the service that holds it.
    """
    path = Path(settings.DATA_DIR) / LOCK_NAME
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        url = os.read(handle, 2000).decode()
        os.close(handle)
        raise AlreadyRunningError(url) from None
    os.ftruncate(handle, 0)
    os.write(handle, settings.BASE_URL.encode())
    return handle


def running_at() -> str | None:
    """Return the URL of the service that holds the data folder, or None if none does."""
    path = Path(settings.DATA_DIR) / LOCK_NAME
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(handle, 2000).decode() or None
    finally:
        os.close(handle)
    return None


def _piped(plan: dict[str, Any]) -> int:
    """Return a descriptor with the plan that outlives exec. The plan fits the pipe, so nobody has
    to read yet.
    """
    read_end, write_end = os.pipe()
    os.write(write_end, json.dumps(plan).encode())
    os.close(write_end)
    os.set_inheritable(read_end, True)
    return read_end

"""Gives every test a private Redis, plain static files, signals, and skips that can fail."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.db import connection

from tests import migrated
from webapp.service import private_redis

hypothesis.settings.register_profile("all", deadline=None, print_blob=True, max_examples=150)
hypothesis.settings.register_profile(
    "sample", hypothesis.settings.get_profile("all"), max_examples=16, derandomize=True
)

_TESTS = Path(__file__).parent
KILLING = [
    _TESTS / name
    for name in ("processes/test_mail.py", "processes/test_nothing_is_lost.py", "faults")
]
AGENT, OLD_DATA = _TESTS / "agent", [_TESTS / name for name in ("backup", "upgrade")]
LONGEST = ["agent", "processes", "killing", "backup", "browser"]
"""Groups of tests."""
GIVES_WAY = 10
"""The niceness of the tests that don't look at the clock."""

_folder = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
_usual_niceness = pytest.StashKey[int]()
_redis = pytest.StashKey[subprocess.Popen[bytes]]()


def pytest_configure(config: pytest.Config) -> None:
    """Settings are read before this file; what they say is still unused, so it can be changed.

    Without the long tests, each property is tried on a sample that is always the same.
    """
    config.stash[_usual_niceness] = os.getpriority(os.PRIO_PROCESS, 0)
    is_sample = config.getoption("markexpr") == "not long"
    hypothesis.settings.load_profile("sample" if is_sample else "all")
    config.stash[_folder] = tempfile.TemporaryDirectory(prefix="trimtab-test-")
    folder = Path(config.stash[_folder].name)
    os.environ.setdefault(migrated.FOLDER_VARIABLE, str(folder))
    if "REDIS_URL" not in os.environ:
        config.stash[_redis] = _start_redis(folder)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    settings.CACHES["default"] |= {"LOCATION": settings.REDIS_URL, "KEY_PREFIX": worker}
    if connection.vendor == "sqlite":
        # pytest-django knows Django's own engine only, and would name a file for each worker.
        settings.DATABASES["default"].setdefault("TEST", {})["NAME"] = ":memory:"
    # The hashed names exist after `collectstatic` only.
    plain = "django.contrib.staticfiles.storage.StaticFilesStorage"
    settings.STORAGES["staticfiles"]["BACKEND"] = plain
    settings.STATIC_ROOT = folder / "static"
    settings.STATIC_ROOT.mkdir()
    # Named by primary keys, which the rows of all workers share.
    settings.IMPORTS_DIR = folder / "imports"
    # Deliberately slow in service; how fast it is matters to one test, which takes it back.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    _let_children_be_signalled()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _redis in config.stash:
        config.stash[_redis].terminate()
        config.stash[_redis].wait(10)
        os.environ.pop("REDIS_URL", None)
    config.stash[_folder].cleanup()


def _let_children_be_signalled() -> None:
    """`nohup` and a shell's `&` have these signals ignored, by all children as well.

    A handler that does nothing ignores them here only: children start with the default again.
    """
    for each in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(each) is signal.SIG_IGN:
            signal.signal(each, lambda *_: None)


def _start_redis(data: Path) -> subprocess.Popen[bytes]:
    """Start one for all workers of this test run; they find it in the environment."""
    server = private_redis.find_server()
    if server is None:
        raise pytest.UsageError(private_redis.MISSING)
    process = subprocess.Popen(private_redis.command(server, data), stdout=subprocess.DEVNULL)
    _wait_for_socket(private_redis.socket_path(data))
    url = private_redis.url(data)
    os.environ["REDIS_URL"] = settings.REDIS_URL = url
    settings.CELERY_BROKER_URL = url.replace("unix://", "redis+socket://")
    return process


def _wait_for_socket(path: Path) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as trial:
            if trial.connect_ex(str(path)) == 0:
                return
        time.sleep(0.02)
    raise pytest.UsageError(f"The private Redis does not answer at {path}.")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_use_migrations: bool,
    django_db_modify_db_settings_parallel_suffix: None,
) -> Iterator[None]:
    """Puts all tables where Django is going to make its test database: it has nothing to migrate.

    That is memory, by this name, for as long as somebody has it open.
    """
    if connection.vendor != "sqlite" or not django_db_use_migrations:
        yield
        return
    name = "file:memorydb_default?mode=memory&cache=shared"
    with (
        closing(sqlite3.connect(migrated.migrated_database())) as source,
        closing(sqlite3.connect(name, uri=True)) as memory,
    ):
        source.backup(memory)
        yield


@pytest.fixture(autouse=True)
def _nothing_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a process counts by primary key: the rows of another test had the same keys."""
    from webapp.http import rate_limits
    from webapp.mlflow_api import effort
    from webapp.quotas import deferral

    monkeypatch.setattr(rate_limits, "handfuls", rate_limits.Handfuls())
    monkeypatch.setattr(deferral, "_counts", {})
    monkeypatch.setattr(effort, "owed", {})


@pytest.fixture
def live_server(live_server: Any) -> Iterator[Any]:
    """Yield a server that is idle at the end of the test: it reads the tables that are emptied
    then. A browser that is closed does not wait for the answers to what it asked for.
    """
    before = set(threading.enumerate())
    yield live_server
    deadline = time.monotonic() + 30
    for thread in set(threading.enumerate()) - before:
        if "process_request_thread" in thread.name:
            thread.join(max(0.0, deadline - time.monotonic()))
            assert not thread.is_alive(), "A request to the live server is still being answered."


@pytest.hookimpl(wrapper=True, tryfirst=True)  # xdist reads the marks in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    for item in items:
        if _is_left_out(item):
            item.add_marker("long")
        group = _group(item)
        if group:
            item.add_marker(pytest.mark.xdist_group(group))
    yield
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """Return the test's turn: what takes a worker minutes begins first, and single tests fill the
    gaps at the end.
    """
    mark = item.get_closest_marker("xdist_group")
    if mark is None:
        return len(LONGEST) + 1
    return LONGEST.index(mark.args[0]) if mark.args[0] in LONGEST else len(LONGEST)


def _group(item: pytest.Item) -> str | None:
    """Return the group of the tests that one worker runs: those of a module, unless each of them
    takes long.

    Tests that start the real processes mostly wait, and more of them at a time would need more of
    the machine than their patience allows for. Those that kill processes while runs arrive take as
    long as all others. The agent's mostly wait, too, but for those with PyTorch.
    """
    if item.get_closest_marker("xdist_group"):
        return None
    if any(item.path.is_relative_to(place) for place in OLD_DATA):
        # The tables of a service are made once, for each database, and copied.
        return "backup"
    if item.get_closest_marker("browser"):
        # One Chromium is started for all of them.
        return "browser"
    if item.get_closest_marker("processes"):
        is_killing = any(item.path.is_relative_to(place) for place in KILLING)
        return "killing" if is_killing else "processes"
    if item.get_closest_marker("torch"):
        return None
    if item.path.is_relative_to(AGENT):
        return "agent"
    return f"{item.path.parent.name}/{item.path.stem}"


def _is_left_out(item: pytest.Item) -> bool:
    """Return whether a test is marked as sampled and not of the share, always the same, that is
    run.
    """
    sampled = item.get_closest_marker("sampled")
    return sampled is not None and zlib.crc32(item.nodeid.encode()) % sampled.args[0] != 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """The agent's tests look at what it did at what moment: all others give way to them. Only root
    may take the usual priority back."""
    if os.geteuid() == 0:
        usual = item.config.stash[_usual_niceness]
        is_agents = item.path.is_relative_to(AGENT)
        os.setpriority(os.PRIO_PROCESS, 0, usual if is_agents else min(usual + GIVES_WAY, 19))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    return _failed_if_skipped((yield), item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):  # type: ignore[no-untyped-def]
    return _failed_if_skipped((yield), collector.nodeid)


def _failed_if_skipped(report, name: str):  # type: ignore[no-untyped-def]
    """Make a skip a failure: with TRIMTAB_REQUIRE=all nothing may be left out."""
    if os.environ.get("TRIMTAB_REQUIRE") != "all":
        return report
    if report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{name} was skipped, and TRIMTAB_REQUIRE=all: {report.longrepr}"
    return report

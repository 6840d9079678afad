"""Runs a target's tests on a mutant: in a copy of the checkout, in a forked process.

The libraries that the tests import are imported before the fork. So a mutant takes about a second,
half of it for pytest and Django.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import hypothesis
import pytest

from .mutants import Mutant
from .targets import ROOT, Target

KILLED, TIMED_OUT, SURVIVED = "killed", "timed out", "survived"
OUTPUT = "pytest.out"
LEFT_OUT = (".git", ".venv", "var", "node_modules", ".mypy_cache", ".ruff_cache", ".hypothesis")
PLUGINS = ("pytest_django.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
"""The pytest plugins that tests of the service use. Importing all installed ones takes 4 s."""
OPTIONS = ("-x", "-q", "-m", "not long", "-p", "no:cacheprovider", "--assert=plain")
WITHOUT_SERVICE = (*OPTIONS, "--noconftest", "-c", os.devnull, "--rootdir", ".", "-W", "ignore")
WITH_SERVICE = (
    *OPTIONS,
    "--nomigrations",
    *(word for plugin in PLUGINS for word in ("-p", plugin)),
)
IMPORTED_ONCE = (
    *PLUGINS,
    *("boto3", "celery.app.base", "django.contrib.auth.hashers", "django.core.management"),
    *("django.db.models", "django.template.defaulttags", "django.test", "hypothesis.strategies"),
    *("kombu.transport.redis", "moto", "numpy", "pandas", "pyarrow.parquet", "pydantic", "redis"),
    *("responses", "scipy.stats"),
)


class TestsFailError(Exception):
    """The tests' output, and their target."""


@dataclass(frozen=True)
class Outcome:
    mutant: Mutant
    verdict: str
    cpu_seconds: float


def outcomes(mutants: Sequence[Mutant], processes: int) -> Iterator[Outcome]:
    """Yield the result of each mutant, in order, as soon as it is known.

    Raises:
        TestsFailError: a target's tests fail on the unchanged code.
    """
    for name in IMPORTED_ONCE:
        importlib.import_module(name)
    gc.freeze()
    with (
        tempfile.TemporaryDirectory(prefix="trimtab-mutation-") as folder,
        ProcessPoolExecutor(processes, get_context("fork"), _begin, (folder,)) as pool,
    ):
        yield from pool.map(_try_out, mutants)


_copy: _Copy


def _begin(folder: str) -> None:
    global _copy
    _copy = _Copy(folder)


def _try_out(mutant: Mutant) -> Outcome:
    if os.getppid() != _copy.parent:
        os._exit(1)
    return _copy.try_out(mutant)


class _Copy:
    """A copy of the checkout for one worker process. Only the copy is changed."""

    def __init__(self, folder: str) -> None:
        self.parent = os.getppid()
        self.path = Path(tempfile.mkdtemp(dir=folder))
        left_out = shutil.ignore_patterns(*LEFT_OUT)
        shutil.copytree(ROOT, self.path, ignore=left_out, dirs_exist_ok=True)
        self._unchanged_seconds: dict[Target, list[float]] = {}
        self._written_ns = time.time_ns()

    def try_out(self, mutant: Mutant) -> Outcome:
        target = mutant.target
        if target not in self._unchanged_seconds:
            self._unchanged_seconds[target] = self._seconds_of(target)
        original = (self.path / mutant.file).read_text(encoding="utf-8")
        self._write(mutant.file, mutant.code)
        try:
            return self._outcome(mutant)
        finally:
            self._write(mutant.file, original)

    def _outcome(self, mutant: Mutant) -> Outcome:
        """Return the outcome of the first tests that notice the change, or of all of them."""
        verdict, all_seconds = SURVIVED, 0.0
        usual = self._unchanged_seconds[mutant.target]
        for words, usual_seconds in zip(_commands(mutant.target), usual, strict=True):
            verdict, cpu_seconds = self._tested(words, 5 * usual_seconds + 5)
            all_seconds += cpu_seconds
            if verdict != SURVIVED:
                break
        return Outcome(mutant, verdict, all_seconds)

    def _seconds_of(self, target: Target) -> list[float]:
        """Return the time of each command's second run, because the first one also compiles
        imports.
        """
        seconds = []
        for words in _commands(target):
            for _ in range(2):
                verdict, cpu_seconds = self._tested(words, limit_seconds=600)
                if verdict != SURVIVED:
                    said = (self.path / OUTPUT).read_text(encoding="utf-8")
                    failed = f"The tests of {target.name} fail without a change."
                    raise TestsFailError(f"{said}\n{failed}")
            seconds.append(cpu_seconds)
        return seconds

    def _write(self, file: str, code: str) -> None:
        """Write a file with a new modification time, so that Python uses no compiled file."""
        path = self.path / file
        path.write_text(code, encoding="utf-8")
        self._written_ns += 10**9
        os.utime(path, ns=(self._written_ns, self._written_ns))

    def _tested(self, words: Sequence[str], limit_seconds: float) -> tuple[str, float]:
        """Return the verdict and CPU seconds. The limit applies to CPU seconds."""
        child = os.fork()
        if child == 0:
            self._test(words, limit_seconds)
        code, cpu_seconds = _waited(child, 10 * limit_seconds)
        if code == 0:
            return SURVIVED, cpu_seconds
        return TIMED_OUT if code in (None, -signal.SIGXCPU) else KILLED, cpu_seconds

    def _test(self, words: Sequence[str], limit_seconds: float) -> None:
        """Runs in the forked process, which ends here."""
        code = 1
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit_seconds), -1))
            os.chdir(self.path)
            os.environ |= {
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "TMPDIR": str(self.path.parent),
                "TRIMTAB_DATA_DIR": str(self.path / "var"),
            }
            sys.path[:0] = [str(self.path), str(self.path / "agent")]
            # Some shells forbid it; to compile everything for each mutant takes half of its time.
            sys.dont_write_bytecode = False
            with (self.path / OUTPUT).open("w") as out:
                os.dup2(out.fileno(), 1)
                os.dup2(out.fileno(), 2)
                code = pytest.main([*words], plugins=[_WithoutShrinking()])
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(int(code))


def _commands(target: Target) -> list[tuple[str, ...]]:
    """Return the arguments of each call of pytest, in their order."""
    both = ((WITHOUT_SERVICE, target.tests), (WITH_SERVICE, target.service_tests))
    return [(*options, *tests) for options, tests in both if tests]


class _WithoutShrinking:
    """The sample of the everyday test run. One failing example is enough: it isn't shown."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        hypothesis.settings.register_profile(
            "mutation",
            deadline=None,
            derandomize=True,
            max_examples=40,
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        )
        hypothesis.settings.load_profile("mutation")


def _waited(child: int, most_seconds: float) -> tuple[int | None, float]:
    """Return the exit code and CPU seconds of a child. Processes that it started are killed with
    it.

    None: it took too long.
    """
    deadline = time.monotonic() + most_seconds
    ended = 0
    while not ended and time.monotonic() < deadline:
        time.sleep(0.01)
        ended, status, used = os.wait4(child, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not ended:
        _, _, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status) if ended else None
    return code, used.ru_utime + used.ru_stime

"""`manage.py test`: lint, templates, types, wording, import contracts, checks and the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

CODE = ("manage.py", "webapp", "advisor", "rules", "agent", "tests", "bench", "examples", "tools")
NAMED = tuple(path for path in CODE if path != "tests")
TYPED = ("rules", "advisor", "agent/trimtab", "webapp", "tools")
AGENT, AGENT_CONFIG = "agent/trimtab", "agent/pyproject.toml"
OLDEST = "3.9"
"""The oldest Python that runs the agent, whatever runs the service."""
TEMPLATES = "webapp/templates"
DOCUMENTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs")
OWN_WORDS = ("--full", "--")
CORES = 2
SLOWEST = "--durations=50"
"""The option that lists the slowest tests, so that a slow one is noticed when it comes."""
WAITING_WORKERS = 3
"""The workers for the three groups of tests that mostly wait: see tests/conftest.py."""


@dataclass(frozen=True)
class Stage:
    """One thing that has to hold. What it prints is shown when it fails."""

    name: str
    command: list[str]
    always_shown: str | None = None
    """Lines that end with this are shown when it passes, too."""
    is_beside_tests: bool = False
    """True if the stage takes about a minute of one core, which the tests that wait leave free."""

    def run(self, environment: dict[str, str]) -> StageOutcome:
        started = time.monotonic()
        ended = subprocess.run(
            self.command,
            cwd=settings.BASE_DIR,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - started
        said = ended.stdout if ended.returncode else self._shown(ended.stdout)
        return StageOutcome(self.name, ended.returncode == 0, seconds, said)

    def _shown(self, printed: str) -> str:
        if self.always_shown is None:
            return ""
        lines = (line for line in printed.splitlines() if line.endswith(self.always_shown))
        return "".join(f"  {line}\n" for line in lines)


@dataclass(frozen=True)
class StageOutcome:
    """The result of a stage."""

    name: str
    is_passed: bool
    seconds: float
    output: str
    """The part of the stage's output that is to be shown."""

    def show(self) -> None:
        verdict = "passed" if self.is_passed else "FAILED"
        sys.stdout.write(f"{self.name:<20}{verdict:>8}{self.seconds:8.1f} s\n{self.output}")
        sys.stdout.flush()


class Command(BaseCommand):
    help = "Runs all checks and tests. --full adds long tests; other arguments go to pytest."
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Run without Django's own parsing: pytest's options need no list here."""
        words = argv[2:]
        if {"-h", "--help"} & set(words):
            self.print_help(argv[0], argv[1])
            return
        for_pytest = [word for word in words if word not in OWN_WORDS]
        sys.exit(run(is_full="--full" in words, for_pytest=for_pytest))

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--full", action="store_true", help="run the long tests as well")
        parser.add_argument("pytest", nargs="*", help="arguments and options for pytest")

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(run(is_full=options["full"], for_pytest=options["pytest"]))


COLLECTION = Stage("collection", [sys.executable, "-m", "pytest", "--collect-only", "-qq"])
"""The stage that also compiles the test modules once, beside the checks. Otherwise each worker
does, since they begin together: 12 of its CPU seconds in a fresh checkout."""


def run(is_full: bool, for_pytest: list[str]) -> int:
    """Run all stages, also after one that failed.

    First the short ones, then pytest, which prints as it goes, with the long ones beside it: those
    are shown at the end. Returns 0 when everything passed, pytest's own code when only the tests
    failed, else 1.
    """
    with tempfile.TemporaryDirectory(prefix="trimtab-test-") as folder:
        # Never the data of a service that runs from this checkout.
        environment = os.environ | {"TRIMTAB_DATA_DIR": folder}
        # Hundreds of processes would each compile all of their modules.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = pytest_command(is_full, for_pytest)
        with ThreadPoolExecutor(CORES) as pool:
            stages = checks() if for_pytest else [COLLECTION, *checks()]
            first = [stage for stage in stages if not stage.is_beside_tests]
            outcomes = _shown(pool.map(lambda stage: stage.run(environment), first))
            long = [stage for stage in stages if stage.is_beside_tests]
            beside = pool.map(lambda stage: stage.run(environment), long)
            tests = subprocess.run(command, cwd=settings.BASE_DIR, env=environment, check=False)
            outcomes += _shown(beside)
    failed = [outcome.name for outcome in outcomes if not outcome.is_passed]
    if failed:
        sys.stderr.write(f"Failed beside the tests: {', '.join(failed)}\n")
        return 1
    return tests.returncode


def _shown(outcomes: Iterable[StageOutcome]) -> list[StageOutcome]:
    """Show each outcome as soon as it is there, in the order of the stages."""
    shown = []
    for outcome in outcomes:
        outcome.show()
        shown.append(outcome)
    return shown


def checks() -> list[Stage]:
    python, manage = sys.executable, [sys.executable, "manage.py"]
    read = (*DOCUMENTS, *CODE)
    # Tests of the wording check quote what it has to find.
    worded = [path for path in read if path != "tests"]
    naming = [python, "tools/names.py", *NAMED]
    imports, vermin, djangofmt = (
        str(Path(python).with_name(name)) for name in ("lint-imports", "vermin", "djangofmt")
    )
    return [
        # The tests that run at the same time look at the clock.
        Stage("mypy", ["nice", "-n", "19", python, "-m", "mypy", *TYPED], is_beside_tests=True),
        Stage("agent types", [python, "-m", "mypy", "--config-file", AGENT_CONFIG, AGENT]),
        Stage("agent's Python", [vermin, f"-t={OLDEST}-", "--no-tips", "--violations", AGENT]),
        Stage("ruff check", [python, "-m", "ruff", "check", *CODE]),
        Stage("ruff format", [python, "-m", "ruff", "format", "--check", *CODE]),
        Stage("template format", [djangofmt, "--check", TEMPLATES]),
        Stage("template lines", [python, "tools/template_lines.py", TEMPLATES]),
        Stage("spelling", [python, "-m", "codespell_lib", *read]),
        Stage("wording", [python, "tools/wording.py", *worded]),
        Stage("docstrings", [python, "tools/docstrings.py", *CODE], always_shown=" a sentence"),
        Stage("names", naming, always_shown=" their context"),
        Stage("import contracts", [imports, "--no-logo"], always_shown=" KEPT"),
        Stage("migrations", [*manage, "makemigrations", "--check", "--dry-run"]),
        Stage("system checks", [*manage, "check", "--fail-level", "WARNING"]),
    ]


def pytest_command(is_full: bool, for_pytest: list[str]) -> list[str]:
    """Return the command with one worker a core, and those for the tests that wait, most of their
    time.

    tests/conftest.py puts the tests in the order in which they are handed out.
    """
    workers = str(CORES + WAITING_WORKERS)
    spread = (
        []
        if "-n" in for_pytest
        else ["-n", workers, "--dist", "loadgroup", "--no-loadscope-reorder"]
    )
    chosen = [] if is_full or "-m" in for_pytest else ["-m", "not long"]
    slowest = [] if for_pytest else [SLOWEST]
    return [sys.executable, "-m", "pytest", *spread, *chosen, *slowest, *for_pytest]

"""`manage.py test` and the promise that a skip can be made to fail."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.running_service import CHECKOUT
from webapp.management.commands import test as command
from webapp.management.commands.test import Stage, checks, pytest_command

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = [contract["name"] for contract in PROJECT["tool"]["importlinter"]["contracts"]]
SKIPPING = """
import pytest
def test_left_out():
    pytest.skip("no reason")
@pytest.mark.xfail(reason="known")
def test_known_to_fail():
    assert False
"""

GROUPED = """
import os, time
import pytest
@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(6))
def test_where_it_runs(number):
    time.sleep(0.05)
    open("worker-" + os.environ["PYTEST_XDIST_WORKER"], "w").close()
"""

SIGNALLING = """
import subprocess
def test_a_child_ends_by_its_signal():
    assert subprocess.run(["bash", "-c", "kill -HUP $$; exit 7"]).returncode == -1
"""


def test_long_tests_are_left_out_unless_all_are_asked_for() -> None:
    assert "not long" in pytest_command(is_full=False, for_pytest=[])
    assert "not long" not in pytest_command(is_full=True, for_pytest=[])
    chosen = pytest_command(is_full=False, for_pytest=["-m", "long"])
    assert chosen.count("-m") == 2, "python -m pytest, and the one given"


def test_everything_that_is_code_is_linted_and_typed() -> None:
    commands = {stage.name: set(stage.command) for stage in checks()}
    linted = {"webapp", "advisor", "rules", "agent", "tests", "bench", "tools", "manage.py"}
    assert linted <= commands["ruff check"] & commands["ruff format"]
    assert {"webapp", "advisor", "rules", "agent/trimtab", "tools"} <= commands["mypy"]


def test_the_import_contracts_are_printed_when_they_hold(
    capsys: pytest.CaptureFixture[str],
) -> None:
    contracts = next(stage for stage in checks() if stage.name == "import contracts")

    outcome = contracts.run(dict(os.environ))
    outcome.show()

    assert outcome.is_passed
    printed = capsys.readouterr().out
    for name in CONTRACTS:
        assert f"  {name} KEPT\n" in printed
    assert "dependencies" not in printed, "the rest of what it says is for failures"


@pytest.mark.parametrize(
    ("module", "bad_import", "broken"),
    [
        (
            "webapp/runs/scope.py",
            "from webapp.analysis.models import Analysis",
            {
                "No two modules or packages beside each other import each other",
                "Packages of webapp import those below them",
            },
        ),
        (
            "webapp/management/commands/up.py",
            "from webapp.dashboard import urls",
            {"Nobody imports dashboard, api, notify or mlflow_api"},
        ),
        (
            "webapp/prices/scope.py",
            "from webapp.spend import months",
            {
                "No two modules or packages beside each other import each other",
                "Packages of webapp import those below them",
            },
        ),
        (
            "webapp/thresholds/values.py",
            "from webapp.directives import scope",
            {"Packages of webapp import those below them"},
        ),
        (
            "rules/registry.py",
            "from advisor.store import index",
            {"Imports point one way: webapp -> advisor -> rules"},
        ),
    ],
)
def test_a_contract_is_broken_by_one_bad_import(
    tmp_path: Path, module: str, bad_import: str, broken: set[str]
) -> None:
    _copy_code(tmp_path)
    with (tmp_path / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{bad_import}\n")

    ended = _lint_imports(tmp_path)

    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert {name for name in CONTRACTS if f"{name} BROKEN" in ended.stdout} == broken
    assert bad_import.split()[1] in ended.stdout


def test_the_parts_of_the_analysis_import_one_way(tmp_path: Path) -> None:
    _copy_code(tmp_path)
    with (tmp_path / "webapp/analysis/queue.py").open("a", encoding="utf-8") as file:
        file.write("\nfrom webapp.analysis.judging import looks\n")

    ended = _lint_imports(tmp_path)

    assert "No two modules or packages beside each other import each other BROKEN" in ended.stdout
    assert "- .queue -> .judging (1 import)" in ended.stdout


def _copy_code(folder: Path) -> None:
    for package in ("webapp", "advisor", "rules", "agent/trimtab"):
        only_code = shutil.ignore_patterns("static", "templates", "__pycache__", "*.json", "*.csv*")
        shutil.copytree(CHECKOUT / package, folder / Path(package).name, ignore=only_code)
    shutil.copy(CHECKOUT / "pyproject.toml", folder)


def _lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache", "--no-logo"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("is_wrong", "code"), [(False, 0), (True, 1)])
def test_a_long_stage_runs_beside_the_tests_and_is_shown_after_them(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], is_wrong: bool, code: int
) -> None:
    said = f"print('a wrong type'); raise SystemExit({code})"
    stages = [
        Stage("types", [sys.executable, "-c", said], is_beside_tests=True),
        Stage("lint", [sys.executable, "-c", ""]),
    ]
    monkeypatch.setattr(command, "checks", lambda: stages)
    tests = [sys.executable, "-c", "print('3 passed')"]
    monkeypatch.setattr(command, "pytest_command", lambda *_: tests)
    # With an argument for pytest, not all tests are collected first.
    assert command.run(is_full=False, for_pytest=["tests/ops"]) == code
    output = capfd.readouterr().out
    assert output.index("lint") < output.index("3 passed") < output.index("types")
    assert ("a wrong type" in output) == is_wrong


def run_pytest(folder: Path, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_of_its_own.py").write_text(text)
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, str(folder)],
        cwd=CHECKOUT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_children_can_be_signalled_where_nohup_started_the_tests(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        ended = run_pytest(tmp_path, SIGNALLING)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize(("required", "code"), [("", 0), ("all", 1)])
def test_a_skip_fails_only_when_everything_is_required(
    tmp_path: Path, required: str, code: int
) -> None:
    ended = run_pytest(tmp_path, SKIPPING, TRIMTAB_REQUIRE=required)
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert ("1 failed" in ended.stdout) == bool(code)


def test_tests_of_one_group_run_in_one_worker(tmp_path: Path) -> None:
    """Each worker would start every service otherwise. pytest-xdist needs a pytest that it knows
    for it.
    """
    test = tmp_path / "test_grouped.py"
    test.write_text(GROUPED)
    words = [sys.executable, "-m", "pytest", "-p", "no:django", "-n", "2", "--dist", "loadgroup"]
    subprocess.run([*words, str(test)], cwd=tmp_path, check=True, capture_output=True)
    assert len(list(tmp_path.glob("worker-*"))) == 1

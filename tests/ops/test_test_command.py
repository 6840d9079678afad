"""`manage.py test` and the promise that a skip can be made to fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running_service import CHECKOUT
from webapp.management.commands.test import checks, pytest_command

SKIPPING = """
import pytest
def test_left_out():
    pytest.skip("no reason")
@pytest.mark.xfail(reason="known")
def test_known_to_fail():
    assert False
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


@pytest.mark.parametrize(("required", "code"), [("", 0), ("all", 1)])
def test_a_skip_fails_only_when_everything_is_required(
    tmp_path: Path, required: str, code: int
) -> None:
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, str(tmp_path)],
        cwd=CHECKOUT,
        env=os.environ | {"TRIMTAB_REQUIRE": required},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert ("1 failed" in ended.stdout) == bool(code)

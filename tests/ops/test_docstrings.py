"""The check of docstrings finds those that begin in the middle of a sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.running_service import CHECKOUT
from webapp.management.commands.test import CODE, checks


def run_check(*paths: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the check over these paths."""
    return subprocess.run(
        [sys.executable, str(CHECKOUT / "tools" / "docstrings.py"), *map(str, paths)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )


FRAGMENTS = (
    "Of each node, how often it was restarted.",
    "By workspace, the bytes.",
    "Only for tests.",
    "in UTC.",
    "What it cost.",
    "Whether it runs.",
    "How long it took.",
    "Else the first one.",
    "It is no message.",
    "Those of others go on.",
    "Written by the worker.",
    "Measured.",
    "Not saved.",
    "Kept as long as the loader exists.",
    "None: no price.",
    "Raises Problem 404.",
)
STATEMENTS = (
    "Return the rows that are due, oldest first.",
    "Raised when the disk is full.",
    "The USD of an hour.",
    "One upload of one node.",
    "Realised savings of a job.",
    "Thereby hangs a tail.",
    "What-if questions about a run.",
    "`manage.py up`: the whole service.",
    "Rates that a person added by hand.",
)


def attributes(docstrings: tuple[str, ...]) -> str:
    """Return a module of constants with these docstrings, each on an even line."""
    return "".join(f'A{number} = 1\n"""{text}"""\n' for number, text in enumerate(docstrings))


def test_it_finds_each_beginning_that_leans_on_the_name(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(attributes(FRAGMENTS))
    ended = run_check(file)
    *found, count = ended.stdout.splitlines()
    assert ended.returncode == 1
    assert [line.split('"')[1] for line in found] == [" ".join(t.split()[:3]) for t in FRAGMENTS]
    assert [line.split(":")[1] for line in found] == [str(2 * n + 2) for n in range(len(FRAGMENTS))]
    assert count == f"{file}: 16 of 16 docstrings begin in the middle of a sentence"


def test_it_leaves_statements_alone(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(attributes(STATEMENTS))
    ended = run_check(file)
    assert ended.returncode == 0
    assert ended.stdout == f"{file}: 0 of 9 docstrings begin in the middle of a sentence\n"


def test_it_reads_modules_classes_functions_and_attributes(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        '"""Of a module."""\n\nLIMIT = 1\n"""Of a constant."""\n\n\n'
        'class Row:\n    """Of a class."""\n\n    size = 1\n    """Of an attribute."""\n\n'
        '    async def read(self) -> None:\n        """Of a method."""\n'
        '        return "of a value".upper()\n'
    )
    ended = run_check(tmp_path)
    lines = [line.split(":")[1] for line in ended.stdout.splitlines()[:-1]]
    assert sorted(lines, key=int) == ["1", "4", "8", "11", "14"]


def test_the_test_command_reads_all_code() -> None:
    [command] = [stage.command for stage in checks() if stage.name == "docstrings"]
    assert command[1:] == ["tools/docstrings.py", *CODE]

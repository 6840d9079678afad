"""The check of names finds those that mean nothing without the sentence they were taken from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.running_service import CHECKOUT
from webapp.management.commands.test import NAMED, checks

MOST_EXCEPTIONS = 20


def run_check(*paths: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the check over these paths."""
    return subprocess.run(
        [sys.executable, str(CHECKOUT / "tools" / "names.py"), *map(str, paths)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )


def problems(module: Path, source: str) -> dict[str, str]:
    """Write a module; return what is found in it, by name."""
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(source)
    lines = (line.split(": ") for line in run_check(module.parent).stdout.splitlines()[:-1])
    return {name: why for _, name, why in lines}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("asked", "a participle"),
        ("held", "a participle"),
        ("carefully", "an adverb"),
        ("of", "a preposition"),
        ("everything", "a pronoun"),
        ("late", "an adjective"),
        ("begin", "a verb without its object"),
        ("put_back", "a verb without its object"),
        ("judge_again", "a verb without its object"),
        ("after_all", "a preposition before a noun"),
    ],
)
def test_it_finds_a_function_that_says_neither_what_it_does_nor_to_what(
    tmp_path: Path, name: str, why: str
) -> None:
    assert problems(tmp_path / "a.py", f"def {name}() -> None: ...\n") == {name: why}


@pytest.mark.parametrize(
    "name",
    ["claim_due_rows", "judge", "measure", "main", "feed", "speed", "from_document", "_asked"],
)
def test_it_leaves_verbs_nouns_and_private_functions_alone(tmp_path: Path, name: str) -> None:
    assert problems(tmp_path / "a.py", f"def {name}() -> None: ...\n") == {}


def test_a_method_may_leave_its_object_to_its_class(tmp_path: Path) -> None:
    source = (
        "class Session:\n    def finish(self): ...\n    def put_back(self): ...\n"
        "    @property\n    def missing(self): ...\n    def known(self): ...\n"
    )
    assert problems(tmp_path / "a.py", source) == {"known": "a participle"}


def test_views_fixtures_and_what_templates_call_are_named_freely(tmp_path: Path) -> None:
    source = (
        "@require_safe\ndef deleted(request): ...\n@register.filter\ndef written(value): ...\n"
        "@pytest.fixture\ndef held(): ...\n"
    )
    assert problems(tmp_path / "a.py", source) == {}


@pytest.mark.parametrize("name", ["Asked", "Together", "Several", "Beside"])
def test_it_finds_a_class_that_is_no_noun(tmp_path: Path, name: str) -> None:
    assert list(problems(tmp_path / "a.py", f"class {name}: ...\n")) == [name]


def test_it_finds_a_class_that_two_modules_define(tmp_path: Path) -> None:
    first = tmp_path / "rules" / "a.py"
    assert problems(first, "class Part: ...\n") == {}
    found = problems(tmp_path / "rules" / "b.py", "class Part: ...\nclass Command: ...\n")
    assert found == {"Part": f"also a class of {first}"}


def test_programs_that_nobody_imports_share_no_class_names(tmp_path: Path) -> None:
    problems(tmp_path / "bench" / "a.py", "class Row: ...\n")
    assert problems(tmp_path / "bench" / "b.py", "class Row: ...\n") == {}


def test_it_says_where_and_counts_by_path(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("LIMIT = 1\n\n\ndef read_rows(): ...\nasync def late(): ...\n")
    ended = run_check(file)
    assert ended.returncode == 1
    assert ended.stdout.splitlines() == [
        f"{file}:5: late: an adjective",
        f"{file}: 1 of 2 names need their context",
    ]


def test_the_exceptions_are_few_and_have_reasons() -> None:
    lines = (CHECKOUT / "tools" / "names.txt").read_text().splitlines()
    assert len(lines) <= MOST_EXCEPTIONS
    assert all(reason for line in lines[1:] for reason in [line.partition(": ")[2]])


def test_the_test_command_reads_all_code() -> None:
    [command] = [stage.command for stage in checks() if stage.name == "names"]
    assert command[1:] == ["tools/names.py", *NAMED]

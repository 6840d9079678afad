"""The checks of spelling and wording find what they are for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.running_service import CHECKOUT
from webapp.management.commands.test import checks


def run_check(stage: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the stage of `manage.py test`, over other files than ours."""
    command = next(one.command for one in checks() if one.name == stage)
    ours = command.index("README.md")
    return subprocess.run(
        [*command[:ours], *map(str, arguments)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def phrases(tmp_path: Path) -> Path:
    listed = tmp_path / "phrases"
    listed.write_text('# why\n\nis gone by -> "is used"\nvoices -> "calculations"\n')
    return listed


def test_a_misspelt_word_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>Your trainings.</p>\n<p>They occured twice.</p>\n")  # codespell:ignore
    ended = run_check("spelling", page)
    assert ended.returncode != 0
    assert f"{page}:2: occured ==> occurred" in ended.stdout  # codespell:ignore


def test_our_own_words_are_spelt_as_we_mean_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("ROUGE, colour, judgement, utilisation, artefact\n")
    assert run_check("spelling", page).returncode == 0


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("page.html", "<p>\nThe number\nis gone\n  by again.</p>", 3),
        ("page.md", "# Heading\n\nIt IS GONE BY.", 3),
        ("mail.txt", "is gone by", 1),
        ("chart.js", "// Two\nlabel('It is gone by');", 2),
        ("docstring.py", '"""Title.\n\nWhat is gone by.\n"""', 3),
        ("message.py", "x = 1\nprint('It '\n'is gone '\n'by now')", 2),
        ("filled.py", "def say(n):\n    return f'{n} is gone by {n}'", 2),
    ],
)
def test_a_phrase_to_avoid_is_found_on_its_line(
    tmp_path: Path, phrases: Path, name: str, text: str, line: int
) -> None:
    file = tmp_path / name
    file.write_text(text)
    ended = run_check("wording", file, "--phrases", phrases)
    assert ended.returncode == 1
    assert ended.stdout == f'{file}:{line}: "is gone by": write "is used"\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.py", 'voices = {"voices": 1}\n# is gone by\n'),
        ("longer.md", "Invoices of what is gone byte by byte.\n"),
        ("data.csv", "is gone by\n"),
    ],
)
def test_names_parts_of_words_and_data_are_left_alone(
    tmp_path: Path, phrases: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    ended = run_check("wording", tmp_path, "--phrases", phrases)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_each_phrase_of_our_list_is_found_in_a_folder(tmp_path: Path) -> None:
    listed = (CHECKOUT / "tools" / "wording.txt").read_text()
    lines = [line for line in listed.splitlines() if line and not line.startswith("#")]
    for number, line in enumerate(lines):
        (tmp_path / f"{number:03}.md").write_text(line.split(" -> ")[0])
    printed = run_check("wording", tmp_path).stdout
    assert lines
    for number, line in enumerate(lines):
        words, instead = line.split(" -> ")
        assert f'{number:03}.md:1: "{words}": write {instead}' in printed


def test_a_list_that_does_not_say_what_to_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("voices\n")
    ended = run_check("wording", tmp_path, "--phrases", tmp_path / "list")
    assert ended.returncode == 1
    assert "list:1: expected 'phrase -> what to write'" in ended.stderr


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert run_check("wording", tmp_path / "gone").returncode == 1

"""The pages of docs/development/ list the files to touch: an addition works with exactly these."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import scratch
from tests.additions import ADDITIONS, Addition

FOLDER = scratch.ROOT / "docs" / "development"
ITEM = re.compile(r"^\d+\. `([^`]+)`", re.MULTILINE)
SHORTER = [(thing, path) for thing, each in ADDITIONS.items() for path in each.files]


def named_files(thing: str) -> list[str]:
    """Return the paths of the first numbered list on the page of adding it."""
    (page,) = FOLDER.glob(f"add-a*-{thing.lower()}.md")
    return ITEM.findall(page.read_text().split("\n\n")[1])


def add(addition: Addition, paths: list[str], copy: Path) -> None:
    """Writes exactly these files of the addition."""
    for path in paths:
        file = copy / path.replace("NAME", addition.name)
        assert file.exists() is ("NAME" not in path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(addition.files[path](file.read_text() if file.exists() else ""))


@pytest.mark.parametrize("thing", ADDITIONS)
def test_the_named_files_are_enough(thing: str, tmp_path: Path) -> None:
    scratch.copy(tmp_path)
    add(ADDITIONS[thing], named_files(thing), tmp_path)
    assert ADDITIONS[thing].check(tmp_path) == ""


@pytest.mark.long
@pytest.mark.parametrize(("thing", "missing"), SHORTER)
def test_a_list_that_lacks_a_file_is_not_enough(thing: str, missing: str, tmp_path: Path) -> None:
    scratch.copy(tmp_path)
    add(ADDITIONS[thing], [path for path in named_files(thing) if path != missing], tmp_path)
    assert ADDITIONS[thing].check(tmp_path) != ""


def test_the_files_named_for_an_importer_are_those_of_one_that_exists() -> None:
    named = named_files("Importer")
    assert len(named) == 4
    assert all((scratch.ROOT / path.replace("NAME", "dcgm")).is_file() for path in named)

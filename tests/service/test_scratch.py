"""Temporary files lie on the data's disk: a container's /tmp may be memory, and small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running_service import CHECKOUT

MADE_BY = {
    "NamedTemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory", "TemporaryFile",
    "mkdtemp", "mkstemp",
}  # fmt: skip
OUTSIDE_OF_THE_SERVICE = {"management/demonstration.py", "management/commands/test.py"}
"""Commands that make a data folder of their own."""
WEBAPP = CHECKOUT / "webapp"


def calls_without_folder(source: str) -> Iterator[int]:
    """Yield the line of each call that makes a temporary file wherever the system likes."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in MADE_BY and not any(each.arg == "dir" for each in node.keywords):
            yield node.lineno


def test_it_names_the_folder_of_every_temporary_file() -> None:
    modules = [
        path for path in WEBAPP.rglob("*.py")
        if str(path.relative_to(WEBAPP)) not in OUTSIDE_OF_THE_SERVICE
    ]  # fmt: skip
    assert [
        f"{path.relative_to(WEBAPP)}:{line}"
        for path in modules
        for line in calls_without_folder(path.read_text(encoding="utf-8"))
    ] == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [("tempfile.mkstemp()", [1]), ("\nTemporaryFile(dir=place)\nTemporaryFile()", [3])],
)
def test_it_finds_a_call_without_a_folder(source: str, lines: list[int]) -> None:
    assert list(calls_without_folder(source)) == lines


def test_it_makes_the_scratch_folder_for_its_user_alone(settings) -> None:
    folder = Path(settings.SCRATCH_DIR)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert settings.FILE_UPLOAD_TEMP_DIR == settings.SCRATCH_DIR

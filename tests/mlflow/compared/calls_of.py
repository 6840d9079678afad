"""The calls that are compared: the statements of the files in `calls`, one file an area."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "calls"
_ASKS = ("client.", "mlflow.", "find(", ".fit(", "square(", "broken(")
"""Texts of which a statement has one if it asks a server; all others prepare a call."""


@dataclass(frozen=True)
class Area:
    """A file of calls.

    Attributes:
        title: its first line, in which MLflow's functions are named.
        calls: the statements that ask a server.
    """

    name: str
    title: str
    calls: tuple[str, ...]


def read_areas() -> list[Area]:
    return [_area(path) for path in sorted(FOLDER.glob("*.txt"))]


def _area(path: Path) -> Area:
    text = path.read_text()
    statements = ast.parse(text, str(path)).body
    calls = tuple(ast.unparse(each) for each in statements if _asks_a_server(each))
    return Area(path.stem, text.splitlines()[0].removeprefix("# "), calls)


def _asks_a_server(statement: ast.stmt) -> bool:
    is_import = isinstance(statement, (ast.Import, ast.ImportFrom))
    return not is_import and any(word in ast.unparse(statement) for word in _ASKS)

"""Finds docstrings that begin in the middle of a sentence.

    .venv/bin/python tools/docstrings.py webapp agent ...

A docstring is read without its neighbours: in an editor's tooltip, in the API reference, in a
diff. So the first words of each one, of a module, class, function or attribute, must state
something: "Return the rows that are due.", "Raised when the disk is full.", "The USD of an hour."
A beginning such as "Of a node", "Whether", "What it cost" or "Written by the worker" leans on the
name before it.

Prints one line per place, `file:line: "words": begin with ...`, then the number of places in each
path. The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SKIPPED_FOLDERS = {"migrations", "node_modules", "__pycache__"}
OWNERS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

PREPOSITIONS = (
    "about above across after against along amid among around as at before behind below beside "
    "besides between beyond by despite down during except for from in inside instead into like "
    "near of off on onto out outside over past per since through throughout till to toward "
    "towards under until unlike up upon via with within without"
)
RELATIVES = "how however that what whatever when whenever where wherever whether which whichever"
RELATIVES += " who whom whose why"
CONJUNCTIONS = "also although and because but else if nor once or otherwise so than then though"
CONJUNCTIONS += " unless whereas while yet"
PRONOUNS = "he it its she their them these they this those"
IRREGULAR = (
    "begun bought built chosen drawn found given gone held kept known left lent lost made meant "
    "met paid said seen sent shown sold spent spoken sworn taken told thrown worn written"
)


def _words(*lists: str) -> str:
    return "|".join(word for words in lists for word in words.split())


FRAGMENTS = {
    "a noun with its article or a verb": re.compile(
        rf"(?:(?:even|exactly|just|mostly|nearly|not|only) )?(?:{_words(PREPOSITIONS)})\b(?!-)",
        re.IGNORECASE,
    ),
    "what it is, or with 'Return'": re.compile(rf"(?:{_words(RELATIVES)})\b(?!-)", re.IGNORECASE),
    "the statement itself": re.compile(rf"(?:{_words(CONJUNCTIONS)})\b", re.IGNORECASE),
    "the noun itself": re.compile(rf"(?:{_words(PRONOUNS)})\b", re.IGNORECASE),
    "who does it": re.compile(
        rf"(?!raised\b)(?:not |only )?(?:\w+ed|{_words(IRREGULAR)})"
        rf"(?:[.,:;]|\s+(?:{_words(PREPOSITIONS, RELATIVES, CONJUNCTIONS)}|again|only)\b)",
        re.IGNORECASE,
    ),
    "what it is or does": re.compile(r"(?:none|empty|true|false):|raises\b", re.IGNORECASE),
}
"""The beginnings to avoid, by what to begin with instead."""


@dataclass(frozen=True)
class Docstring:
    """One docstring, with the line on which it begins."""

    line: int
    text: str

    def problem(self) -> str | None:
        """Return what is wrong with the beginning, or None."""
        text = " ".join(self.text.split())
        for instead, fragment in FRAGMENTS.items():
            if fragment.match(text):
                return f'"{" ".join(text.split()[:3])}": begin with {instead}'
        return None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path, help="files and folders to read")
    arguments = parser.parse_args()
    return max([check(path) for path in arguments.paths])


def check(path: Path) -> int:
    """Print the problems at and below a path and their count; return 1 if there is one."""
    counted, problems = 0, []
    for file in python_files(path):
        for docstring in docstrings(file.read_text(encoding="utf-8")):
            counted += 1
            if problem := docstring.problem():
                problems.append(f"{file}:{docstring.line}: {problem}")
    for line in problems:
        print(line)
    print(f"{path}: {len(problems)} of {counted} docstrings begin in the middle of a sentence")
    return 1 if problems else 0


def python_files(path: Path) -> list[Path]:
    """Return the Python files at and below a path, in a stable order."""
    if path.is_file():
        return [path] if path.suffix == ".py" else []
    if not path.is_dir():
        raise SystemExit(f"{path}: no such file or folder")
    files = sorted(path.rglob("*.py"))
    return [file for file in files if not SKIPPED_FOLDERS & set(file.relative_to(path).parts)]


def docstrings(source: str) -> Iterator[Docstring]:
    """Yield the docstrings of a file: the strings that are statements of their own."""
    for owner in ast.walk(ast.parse(source)):
        if isinstance(owner, OWNERS):
            yield from _docstrings_among(owner.body)


def _docstrings_among(statements: Iterable[ast.stmt]) -> Iterator[Docstring]:
    for statement in statements:
        match statement:
            case ast.Expr(value=ast.Constant(value=str(text))) if text.strip():
                yield Docstring(statement.lineno, text)


if __name__ == "__main__":
    sys.exit(main())

"""Finds wording that Trimtab's pages, messages and documents avoid.

    .venv/bin/python tools/wording.py README.md docs webapp ...

Reads whole templates, scripts and documents, and the strings of Python files (with docstrings).
`wording.txt` beside this file lists each phrase to avoid and what to write instead. Prints one line
per place, `file:line: "phrase": write ...`; the exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PHRASES = Path(__file__).resolve().with_suffix(".txt")
SUFFIXES = {".py", ".html", ".txt", ".md", ".js"}
SKIPPED_FOLDERS = {"migrations", "node_modules", "vendor", "__pycache__"}
ARROW = " -> "


@dataclass(frozen=True)
class Phrase:
    """Words to avoid, in any case and across line ends, and what to write instead."""

    words: str
    instead: str

    def pattern(self) -> re.Pattern[str]:
        words = r"\s+".join(re.escape(word) for word in self.words.split())
        return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


@dataclass(frozen=True)
class Text:
    """Some text of a file, with the line on which it begins."""

    first_line: int
    words: str


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path, help="files and folders to read")
    parser.add_argument("--phrases", type=Path, default=PHRASES, help="the list of phrases")
    arguments = parser.parse_args()
    phrases = read_phrases(arguments.phrases)
    problems = [line for path in files(arguments.paths) for line in check(path, phrases)]
    for line in problems:
        print(line)
    return 1 if problems else 0


def read_phrases(path: Path) -> list[Phrase]:
    """Return the phrases of a file: one `phrase -> what to write` a line, `#` begins a comment.

    Raises ValueError with the line's number if a line has no arrow.
    """
    phrases = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words, arrow, instead = line.partition(ARROW)
        if not arrow or not words.strip() or not instead.strip():
            raise ValueError(f"{path}:{number}: expected 'phrase{ARROW}what to write'")
        phrases.append(Phrase(words.strip(), instead.strip()))
    return phrases


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files to read at and below some paths, in a stable order."""
    for path in paths:
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from (file for file in sorted(path.rglob("*")) if _is_read(file, path))
        else:
            raise SystemExit(f"{path}: no such file or folder")


def _is_read(path: Path, root: Path) -> bool:
    folders = path.relative_to(root).parts[:-1]
    is_skipped = any(name in SKIPPED_FOLDERS or name.startswith(".") for name in folders)
    return (
        path.suffix in SUFFIXES and not is_skipped and path.resolve() != PHRASES and path.is_file()
    )


def check(path: Path, phrases: Iterable[Phrase]) -> list[str]:
    """Return a line for each place in a file that has one of the phrases, in the order of the
    file.
    """
    source = path.read_text(encoding="utf-8").replace("’", "'")
    texts = list(python_texts(source)) if path.suffix == ".py" else [Text(1, source)]
    places = [
        (text.first_line + text.words.count("\n", 0, match.start()), phrase)
        for phrase in phrases
        for text in texts
        for match in phrase.pattern().finditer(text.words)
    ]
    places.sort(key=lambda place: place[0])
    return [f'{path}:{line}: "{phrase.words}": write {phrase.instead}' for line, phrase in places]


def python_texts(source: str) -> Iterator[Text]:
    """Yield the strings of a Python file that are prose: those with a space in them.

    Strings written in several pieces are one text, including f-strings, with `{}` for their values.
    """
    inside: set[ast.AST] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            words = "".join(_literal(part) for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            words = node.value
        else:
            continue
        if " " in words:
            yield Text(node.lineno, words)


def _literal(part: ast.expr) -> str:
    is_text = isinstance(part, ast.Constant) and isinstance(part.value, str)
    return str(part.value) if is_text else "{}"  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main())

"""Finds what djangofmt leaves in templates: lines that are too long, and spaces that it put into a
sentence.

    .venv/bin/python tools/template_lines.py webapp/templates

djangofmt never breaks a template tag or a quoted attribute, so a line with a long one stays longer
than 120 characters: move its words into `{% with %}`, a partial, or the form's help text. And it
separates two template blocks that stand side by side, which may put a space before the comma that
the second one begins with: use the filter `phrase` instead of a block. Every file ends with a line
end, so punctuation after `{% include %}` belongs into the included file.

Prints one line per place, `file:line: what to do`. The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

MOST_CHARACTERS = 120
"""The longest line, as `line-length` of djangofmt in pyproject.toml."""
TOO_LONG = f"longer than {MOST_CHARACTERS} characters: use {{% with %}}, a partial or a help text"
SPACED = "a space before punctuation: use the filter `phrase`, or move it into the included file"
_SPACED = re.compile(r"(?:\s(?:\{% (?:if|with) [^%]*%\})+|\{% include [^%]*%\})[,;:.!?)](?!\w)")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path, help="templates and folders of templates")
    problems = [
        f"{path}:{problem}"
        for path in templates(parser.parse_args().paths)
        for problem in check(path.read_text(encoding="utf-8"))
    ]
    for line in problems:
        print(line)
    return 1 if problems else 0


def templates(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the HTML templates at and below some paths, in a stable order."""
    for path in paths:
        yield from sorted(path.rglob("*.html")) if path.is_dir() else [path]


def check(text: str) -> Iterator[str]:
    """Yield `line: what to do` for each problem of a template."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MOST_CHARACTERS:
            yield f"{number}: {TOO_LONG}"
    for found in _SPACED.finditer(text):
        yield f"{text.count(chr(10), 0, found.end()) + 1}: {SPACED}"


if __name__ == "__main__":
    sys.exit(main())

"""Finds public names that mean nothing without the sentence they were taken from.

    .venv/bin/python tools/names.py webapp agent ...

A function is a verb with its object, `claim_due_rows`: not `carefully`, `asked`, `put_back` or
`begin`. A method may leave out the object, since its class is the object: `session.finish()`. A
class is a noun of the domain that no other module of the product defines. Properties, views, tests
and what a template calls are named freely.

Prints one line per place, `file:line: name: why`, then the number of places in each path. The exit
code is 1 if there is one. `names.txt` beside this file lists the exceptions, with the reason.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

EXCEPTIONS = Path(__file__).resolve().with_suffix(".txt")
SKIPPED_FOLDERS = {"migrations", "node_modules", "__pycache__"}
SCRIPTS = {"bench", "examples", "tests", "tools"}
"""Folders of programs and tests: a class there may be named as one elsewhere."""
CONVENTIONS = {"Command"}
"""Class names that a framework looks up."""

IRREGULAR = (
    "begun bought built chosen drawn found given gone held kept known lent lost made meant "
    "met paid said seen sent shown sold spent spoken sworn taken told thrown took was worn written"
)
PREPOSITIONS = (
    "about above after against among around at before behind below beside between beyond during "
    "for inside into near of off on onto outside over per since through till toward under until "
    "upon via within without"
)
PRONOUNS = "each every everything it nothing others ours something such that this what who why"
ADVERBS = "almost already also elsewhere everywhere exactly mostly never now often only seldom"
ADVERBS += " together"
ADJECTIVES = (
    "absolute best busy claimable coarser correct current distinct due first honest idle "
    "incomplete invalid lacking late living missing mixed moving pending plain pressing readable "
    "recoverable remaining several spare sure tiny usual varying whole"
)
VERBS = "begin carry do end finish give go keep make put take try want"
PHRASAL_VERBS = "advise count divide fill judge price send set switch"
PARTICLES = "again all aside away back down in off on out over together up"


def _words(*lists: str) -> str:
    return "|".join(word for words in lists for word in words.split())


LONE_WORDS = {
    "a participle": re.compile(
        rf"(?!feed|need|seed|embed|proceed|succeed)[a-z]+(?<!spe)ed|{_words(IRREGULAR)}"
    ),
    "an adverb": re.compile(rf"[a-z]+fully|{_words(ADVERBS)}"),
    "a preposition": re.compile(_words(PREPOSITIONS)),
    "a pronoun": re.compile(_words(PRONOUNS)),
    "an adjective": re.compile(_words(ADJECTIVES)),
}
"""Words that are no name of their own, by what they are. A class name is read in lower case."""
WITHOUT_OBJECT = {
    "a verb without its object": re.compile(
        rf"(?:{_words(VERBS)})|(?:{_words(VERBS, PHRASAL_VERBS)})_(?:{_words(PARTICLES)})"
    ),
    "a preposition before a noun": re.compile(rf"(?:{_words(PREPOSITIONS)})_\w+"),
}
"""Names of functions outside classes that lack what a method's class supplies."""


@dataclass(frozen=True)
class Definition:
    """One public class, function or method, with the file and line that define it."""

    file: Path
    line: int
    name: str
    is_class: bool = False
    is_method: bool = False

    def problem(self) -> str | None:
        """Return what is wrong with the name by itself, or None."""
        checks = LONE_WORDS if self.is_class or self.is_method else LONE_WORDS | WITHOUT_OBJECT
        name = self.name.lower() if self.is_class else self.name
        for words, pattern in checks.items():
            if pattern.fullmatch(name):
                return words
        return None

    def is_in_product(self) -> bool:
        """Return whether the class shares its space of names with all others of the product."""
        return self.is_class and not SCRIPTS & set(self.file.parts)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path, help="files and folders to read")
    parser.add_argument("--exceptions", type=Path, default=EXCEPTIONS, help="the names to allow")
    arguments = parser.parse_args()
    allowed = read_exceptions(arguments.exceptions)
    by_path = {path: list(definitions(path)) for path in arguments.paths}
    homes = class_homes(name for names in by_path.values() for name in names)
    return max([check(path, names, homes, allowed) for path, names in by_path.items()])


def read_exceptions(path: Path) -> set[str]:
    """Return the allowed names of a file with lines `NAME: reason`; `#` begins a comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {line.split(":")[0].strip() for line in lines if line and not line.startswith("#")}


def check(
    path: Path, names: Sequence[Definition], homes: Mapping[str, list[Path]], allowed: set[str]
) -> int:
    """Print the problems at and below a path and their count; return 1 if there is one."""
    problems = []
    for name in names:
        elsewhere = [file for file in homes.get(name.name, ()) if file != name.file]
        problem = name.problem()
        if name.is_in_product() and elsewhere:
            problem = problem or f"also a class of {elsewhere[0]}"
        if problem and name.name not in allowed:
            problems.append(f"{name.file}:{name.line}: {name.name}: {problem}")
    for line in problems:
        print(line)
    print(f"{path}: {len(problems)} of {len(names)} names need their context")
    return 1 if problems else 0


def class_homes(names: Iterable[Definition]) -> dict[str, list[Path]]:
    """Return the files that define each class of the product."""
    homes: dict[str, list[Path]] = {}
    for name in names:
        if name.is_in_product():
            homes.setdefault(name.name, []).append(name.file)
    return homes


def python_files(path: Path) -> list[Path]:
    """Return the Python files at and below a path, in a stable order."""
    if path.is_file():
        return [path] if path.suffix == ".py" else []
    if not path.is_dir():
        raise SystemExit(f"{path}: no such file or folder")
    files = sorted(path.rglob("*.py"))
    return [file for file in files if not SKIPPED_FOLDERS & set(file.relative_to(path).parts)]


def definitions(path: Path) -> Iterator[Definition]:
    """Yield the public classes, functions and methods at and below a path."""
    for file in python_files(path):
        yield from _definitions_among(file, ast.parse(file.read_text(encoding="utf-8")).body)


def _definitions_among(
    file: Path, statements: Iterable[ast.stmt], is_in_class: bool = False
) -> Iterator[Definition]:
    for node in statements:
        match node:
            case ast.ClassDef(name=name):
                # Methods of a private class are read where it is used, as those of a public one.
                if not name.startswith("_") and name not in CONVENTIONS and not is_in_class:
                    yield Definition(file, node.lineno, name, is_class=True)
                yield from _definitions_among(file, node.body, is_in_class=True)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if not name.startswith("_") and not _is_named_freely(node):
                    yield Definition(file, node.lineno, name, is_method=is_in_class)


def _is_named_freely(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether it is a property, a fixture, a template's filter or tag, or a view."""
    decorators = " ".join(ast.unparse(decorator) for decorator in function.decorator_list)
    if re.search(r"property|\.setter|fixture|register\.", decorators):
        return True
    parameters = [parameter.arg for parameter in function.args.args]
    return bool(decorators) and parameters[:1] in (["request"], ["_request"])


if __name__ == "__main__":
    sys.exit(main())

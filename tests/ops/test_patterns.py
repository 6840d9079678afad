"""Regular expressions: none is made of what a user sends, and none takes long on hostile texts."""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from tests.cpu_time import is_within

ROOT = Path(__file__).parents[2]
PRODUCT = ("advisor", "agent/trimtab", "rules", "webapp")
COMPILING = {
    "re": {
        "compile",
        "match",
        "fullmatch",
        "search",
        "split",
        "sub",
        "subn",
        "findall",
        "finditer",
    },
    "fnmatch": {"fnmatch", "fnmatchcase", "translate"},
}
MADE_BY_US = {
    ("advisor/importers/torch_trace.py", ""): "words of the module",
    ("rules/engine.py", "_has_one"): "a rule's `needs`",
    ("rules/metric_direction.py", "_one_of"): "words of the module",
    ("rules/processes.py", "_any_of"): "names in the code that calls it",
    ("rules/ticks.py", "_pattern"): "the rules' `needs`",
    ("webapp/mlflow_api/searching.py", ""): "the grammar of `webapp.runs.conditions`",
    ("webapp/mlflow_api/traces.py", "find_answer"): "words of the module",
}
"""Functions that put a pattern together, and from what: never from what a user sends."""
SCRIPTS = [*ROOT.glob("webapp/static/js/*.js"), *ROOT.glob("webapp/**/templates/**/*.html")]
MOST_CPU_SECONDS, LONG = 0.1, 10_000
"""The bounds: the CPU time for a text of so many characters. One step for each pair of them takes
twice as long."""
SUSPECTS = (
    *(
        "a",
        "A",
        "0",
        "a0",
        "0.",
        ".0",
        " ",
        "\t",
        "\n",
        "_",
        "-",
        ".",
        "/",
        "a/",
        "[",
        "(",
        "{",
        "<",
    ),
    *("'", '"', "`", "*", "\\", "=", ":", "a=", "a.", ",", "a,", "\x1b]", "\x1b[", "\x1b[0", "%"),
    *("1e", "://", "a://", "é", "-00", "gpu0", "[ ", "{ ", "( "),
)


@cache
def _texts() -> dict[str, str]:
    files = (path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py")))
    return {str(path.relative_to(ROOT)): path.read_text() for path in files}


@cache
def _trees() -> dict[str, ast.Module]:
    """Return the trees of modules that use regular expressions."""
    used = re.compile(r"^\s*(?:import|from) (?:re|fnmatch)\b", re.MULTILINE)
    return {path: ast.parse(text) for path, text in _texts().items() if used.search(text)}


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Yield each call, with the name of the function around it."""
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, function = waiting.pop()
        if isinstance(node, ast.Call):
            yield node, function
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node.name
        waiting += [(child, function) for child in ast.iter_child_nodes(node)]


def _pattern_of(call: ast.Call) -> ast.expr | None:
    """Return what is compiled by the call, if anything is."""
    name = ast.unparse(call.func).removeprefix("fnmatch.")
    if name.removeprefix("re.") in COMPILING["re"] and name.startswith("re."):
        return call.args[0]
    if name in COMPILING["fnmatch"]:
        return call.args[0 if name == "translate" else 1]
    return None


def _is_constant(pattern: ast.expr, constants: set[str]) -> bool:
    """Return whether it is a text, or put together of texts of the module."""
    if isinstance(pattern, ast.Constant):
        return isinstance(pattern.value, (str, bytes))
    if isinstance(pattern, ast.Name):
        return pattern.id in constants
    if isinstance(pattern, ast.JoinedStr):
        return all(_is_constant(part, constants) for part in pattern.values)
    if isinstance(pattern, ast.FormattedValue):
        return _is_constant(pattern.value, constants)
    if isinstance(pattern, ast.BinOp):
        return all(_is_constant(part, constants) for part in (pattern.left, pattern.right))
    return False


def _constants(tree: ast.Module) -> set[str]:
    """Return the names of the module that are given a constant text, once."""
    found: set[str] = set()
    stores = [node.id for node in ast.walk(tree) if _is_stored(node)]  # type: ignore[attr-defined]
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and _is_constant(statement.value, found):
            names = (each.id for each in statement.targets if isinstance(each, ast.Name))
            found |= {name for name in names if stores.count(name) == 1}
    return found


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _made(path: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    constants = _constants(tree)
    for call, function in _calls(tree):
        pattern = _pattern_of(call)
        if pattern is not None and not _is_constant(pattern, constants):
            yield path, function


def test_no_pattern_is_made_of_what_a_user_sends():
    found = {made for path, tree in _trees().items() for made in _made(path, tree)}
    assert found == set(MADE_BY_US)


def test_regular_expressions_are_called_by_the_name_of_their_module():
    hidden = re.compile(
        r"^\s*(?:from (?:re|regex|sre_\w+) |import (?:regex|re as)\b)", re.MULTILINE
    )
    assert [path for path, text in _texts().items() if hidden.search(text)] == []


def test_no_database_or_table_is_given_a_pattern():
    said = re.compile(
        r"_i?regex\b|\bREGEXP\b|SIMILAR TO|\.str\.(?:contains|match|fullmatch|extract)\("
    )
    assert [path for path, text in _texts().items() if said.search(text)] == []
    assert SCRIPTS
    assert [path for path in SCRIPTS if "RegExp(" in path.read_text()] == []


Pattern = tuple[re.Pattern[Any], set[str]]
"""The pattern with the methods by which it is used."""


def _patterns(package: str) -> Iterator[tuple[str, Pattern]]:
    """Yield those of the modules, by place."""
    for path, tree in _trees().items():
        if path.startswith(package):
            yield from _of_module(path, tree)
            yield from _within_functions(path, tree)


def _of_module(path: str, tree: ast.Module) -> Iterator[tuple[str, Pattern]]:
    module = importlib.import_module(_module(path))
    for statement in tree.body:
        for name in [node.id for node in ast.walk(statement) if _is_stored(node)]:  # type: ignore[attr-defined]
            value = getattr(module, name, None)
            for one in value.values() if isinstance(value, dict) else (value,):
                if isinstance(one, re.Pattern):
                    yield f"{path} {name}", (one, _methods(name))


def _within_functions(path: str, tree: ast.Module) -> Iterator[tuple[str, Pattern]]:
    for call, function in _calls(tree):
        pattern = _pattern_of(call)
        if function and isinstance(pattern, ast.Constant) and isinstance(call.func, ast.Attribute):
            yield f"{path} {function}", (re.compile(pattern.value), {call.func.attr})


def _module(path: str) -> str:
    return (
        path.removeprefix("agent/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    )


def _methods(name: str) -> set[str]:
    used = re.compile(rf"\b{name}\.(match|fullmatch|search|sub|split|finditer|findall)\(")
    return {found for text in _texts().values() for found in used.findall(text)} or {"search"}


def _literals(pattern: re.Pattern[Any]) -> set[str]:
    """Return the texts that the pattern spells out."""
    found, text = set(), ""
    for kind, value in _flat(_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)):
        if str(kind) == "LITERAL":
            text += chr(value)
        else:
            found.add(text)
            text = ""
    return {*found, text} - {""}


def _flat(tree: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(tree, _parser.SubPattern):
        for kind, value in tree.data:
            yield kind, value
            yield from _flat(value)
    elif isinstance(tree, (list, tuple)):
        for part in tree:
            yield from _flat(part)


@pytest.mark.parametrize("package", ["advisor", "agent/trimtab", "rules", "webapp"])
def test_no_pattern_takes_long_on_a_hostile_text(package):
    slow = {
        f"{place} {method} {text[:20]!r}"
        for place, (pattern, methods) in _patterns(package)
        for method in methods
        for text in _hostile(pattern)
        if not is_within(_cpu_seconds(pattern, method, text), MOST_CPU_SECONDS)
    }
    assert slow == set()


def _hostile(pattern: re.Pattern[Any]) -> Iterator[Any]:
    literals = sorted(_literals(pattern))[:20]
    repeated = (*SUSPECTS, *literals, *(f"{each} " for each in literals))
    for begin in ("", *literals[:1]):
        for each in repeated:
            for end in ("", "!\n\n"):
                text = begin + each * (LONG // len(each)) + end
                yield text.encode() if isinstance(pattern.pattern, bytes) else text


def _cpu_seconds(pattern: re.Pattern[Any], method: str, text: Any) -> float:
    begun = time.thread_time()
    if method == "sub":
        pattern.sub(text[:0], text)
    elif method == "finditer":
        list(pattern.finditer(text))
    else:
        getattr(pattern, method)(text)
    return time.thread_time() - begun

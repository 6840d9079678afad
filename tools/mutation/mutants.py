"""Every small change of a file, as mutmut makes them.

mutmut's own runner leaves out module constants and decorated functions, in which thresholds live.
So only its changes are taken, and applied everywhere but in annotations, decorators and imports.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from functools import cache

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

from .targets import ROOT, Target


@dataclass(frozen=True)
class Mutant:
    """One change of a file of a target."""

    target: Target
    file: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.file}#{self.number}"

    @property
    def code(self) -> str:
        return changed_codes(self.file)[self.number]

    def diff(self) -> str:
        """What it changes, without the lines around it."""
        before, after = _code(self.file).splitlines(), self.code.splitlines()
        lines = list(unified_diff(before, after, lineterm="", n=0))[2:]
        return "\n".join([self.name, *(f"    {line}" for line in lines)])


def mutants_of(target: Target) -> list[Mutant]:
    """All of a target, in the order of its code."""
    return [
        Mutant(target, file, number)
        for file in target.sources()
        for number in range(len(changed_codes(file)))
    ]


@cache
def changed_codes(file: str) -> list[str]:
    """The file with each of its changes; without those that don't compile or change nothing."""
    code = _code(file)
    known = {ast.dump(ast.parse(code))}
    found = []
    for changed in _with_each_change(code):
        with contextlib.suppress(SyntaxError):
            compile(changed, file, "exec")
            meaning = ast.dump(ast.parse(changed))
            if meaning not in known:
                known.add(meaning)
                found.append(changed)
    return found


@cache
def _code(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


class _Changes(cst.CSTVisitor):
    """Each node that can be changed, with what it becomes."""

    def __init__(self) -> None:
        self.found: list[tuple[cst.CSTNode, cst.CSTNode]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Annotation | cst.Decorator | cst.ImportFrom | cst.Import):
            return False
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                self.found += [(node, changed) for changed in operator(node)]
        return True


def _with_each_change(code: str) -> Iterator[str]:
    """The change is put in by its place, which is faster than to write the tree anew. Where its
    place doesn't hold just the node, as with some brackets, the tree is written."""
    wrapper = MetadataWrapper(cst.parse_module(code), unsafe_skip_copy=True)
    module, places = wrapper.module, wrapper.resolve(PositionProvider)
    lines = [0, *(line_end.end() for line_end in re.finditer("\n", code))]
    changes = _Changes()
    module.visit(changes)
    for node, changed in changes.found:
        place = places[node]
        start = lines[place.start.line - 1] + place.start.column
        end = lines[place.end.line - 1] + place.end.column
        if code[start:end] == module.code_for_node(node).strip():
            yield code[:start] + module.code_for_node(changed).strip() + code[end:]
        else:
            yield cst.ensure_type(module.deep_replace(node, changed), cst.Module).code

"""Every small change of a file, as mutmut makes them.

mutmut's own runner skips module constants and decorated functions, which contain thresholds. So
only its changes are used, and applied everywhere except in annotations, decorators and imports.
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
    """One change of one of a target's files."""

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
        """Return the change, without the surrounding lines."""
        before, after = _code(self.file).splitlines(), self.code.splitlines()
        lines = list(unified_diff(before, after, lineterm="", n=0))[2:]
        return "\n".join([self.name, *(f"    {line}" for line in lines)])


def mutants_of(target: Target) -> list[Mutant]:
    """Return all mutants of a target, in the order of its code."""
    return [
        Mutant(target, file, number)
        for file in target.sources()
        for number in range(len(changed_codes(file)))
    ]


@cache
def changed_codes(file: str) -> list[str]:
    """Return the file with each change, without changes that don't compile or have no effect."""
    code = _code(file)
    known = {ast.dump(ast.parse(code))}
    mutated = []
    for changed in _with_each_change(code):
        with contextlib.suppress(SyntaxError):
            compile(changed, file, "exec")
            meaning = ast.dump(ast.parse(changed))
            if meaning not in known:
                known.add(meaning)
                mutated.append(changed)
    return mutated


@cache
def _code(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


class _Changes(cst.CSTVisitor):
    """Each node that can be changed, with its replacement."""

    def __init__(self) -> None:
        self.replacements: list[tuple[cst.CSTNode, cst.CSTNode]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Annotation | cst.Decorator | cst.ImportFrom | cst.Import):
            return False
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                self.replacements += [(node, changed) for changed in operator(node)]
        return True


def _with_each_change(code: str) -> Iterator[str]:
    """Replaces the text at the node's position, which is faster than writing the whole tree. If the
    position covers more than the node, as with some brackets, the tree is written."""
    wrapper = MetadataWrapper(cst.parse_module(code), unsafe_skip_copy=True)
    module, places = wrapper.module, wrapper.resolve(PositionProvider)
    lines = [0, *(line_end.end() for line_end in re.finditer("\n", code))]
    changes = _Changes()
    module.visit(changes)
    for node, changed in changes.replacements:
        place = places[node]
        start = lines[place.start.line - 1] + place.start.column
        end = lines[place.end.line - 1] + place.end.column
        if code[start:end] == module.code_for_node(node).strip():
            yield code[:start] + module.code_for_node(changed).strip() + code[end:]
        else:
            yield cst.ensure_type(module.deep_replace(node, changed), cst.Module).code

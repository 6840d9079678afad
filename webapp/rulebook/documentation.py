"""Splits a rule's docstring into sections and paragraphs for its page."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rules.rule import Rule

_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")


@dataclass(frozen=True)
class DocumentBlock:
    """A paragraph, or the items of a list."""

    lines: list[str]
    is_list: bool


@dataclass
class DocumentSection:
    title: str
    blocks: list[DocumentBlock] = field(default_factory=list)


def introduction(rule: Rule) -> str:
    """Return the docstring's first sentence."""
    return " ".join(rule.documentation.partition("\n\n")[0].split())


def sections(rule: Rule) -> list[DocumentSection]:
    """Return the sections: what it checks, why it costs money, when it fires, ..."""
    parsed: list[DocumentSection] = []
    for part in re.split(r"^## ", rule.documentation, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        parsed.append(DocumentSection(title.strip(), list(_blocks(text))))
    return parsed


def pieces(text: str) -> list[tuple[str, str]]:
    """Return a line as (kind, text): `code`, `strong` or `plain`."""
    parts, at = [], 0
    for match in _INLINE.finditer(text):
        parts += [("plain", text[at : match.start()])]
        parts += [("code", match[1]) if match[1] else ("strong", match[2])]
        at = match.end()
    return [(kind, part) for kind, part in [*parts, ("plain", text[at:])] if part]


def _blocks(text: str) -> list[DocumentBlock]:
    blocks = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        before, *items = re.split(r"^- ", paragraph, flags=re.MULTILINE)
        if before.strip():
            blocks.append(DocumentBlock([" ".join(before.split())], is_list=False))
        if items:
            blocks.append(DocumentBlock([" ".join(item.split()) for item in items], is_list=True))
    return blocks

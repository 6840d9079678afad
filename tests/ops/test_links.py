"""Links between our documents: each leads to a file, and to a heading where it names one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.running_service import CHECKOUT
from webapp.management.commands.test import CODE, DOCUMENTS

MARKDOWN = MarkdownIt("commonmark").enable("table")
A_DOCUMENT = re.compile(r"\bdocs/[\w/-]+\.md\b")


def documents() -> list[Path]:
    named = [CHECKOUT / name for name in (*DOCUMENTS, "agent/README.md")]
    return sorted(
        file for path in named for file in ([path] if path.is_file() else path.rglob("*.md"))
    )


def dead_links(document: Path) -> list[str]:
    """Return `target: what is wrong`, for each link and picture of a document that leads
    nowhere.
    """
    checked = [(target, _problem(document, target)) for target in _targets(document)]
    return [f"{target}: {problem}" for target, problem in checked if problem]


def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub gives to a document's headings."""
    seen: Counter[str] = Counter()
    given = set()
    for heading in _headings(document):
        # GitHub: lower case, no punctuation but hyphens and underscores, a hyphen for each space.
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        given.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return given


def _problem(document: Path, target: str) -> str:
    parts = urlsplit(target)
    if parts.scheme:
        return ""
    file = (document.parent / unquote(parts.path)).resolve() if parts.path else document
    if not file.exists():
        return "no such file"
    if parts.fragment and (file.suffix != ".md" or parts.fragment not in anchors(file)):
        return "no such heading"
    return ""


def _targets(document: Path) -> Iterator[str]:
    for token in _tokens(document):
        for part in token.children or []:
            target = part.attrGet("href" if part.type == "link_open" else "src")
            if target is not None:
                yield str(target)


def _headings(document: Path) -> Iterator[str]:
    tokens = _tokens(document)
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            yield "".join(part.content for part in inline.children or [])


def _tokens(document: Path) -> list[Token]:
    return MARKDOWN.parse(document.read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    assert dead_links(document) == []


def test_every_document_that_is_named_exists() -> None:
    roots = [CHECKOUT / name for name in (*DOCUMENTS, *CODE)]
    files = [file for root in roots for file in ([root] if root.is_file() else root.rglob("*"))]
    read = [file for file in files if file.suffix in (".py", ".html", ".txt", ".md")]
    named = {(file, name) for file in read for name in A_DOCUMENT.findall(file.read_text("utf-8"))}
    assert len(named) > 20, "the pattern matches what our files say"
    assert [name for name in sorted(named) if not (CHECKOUT / name[1]).exists()] == []


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("other.md", ""),
        ("other.md#costs-in-usd", ""),
        ("other.md#costs-in-usd-1", ""),
        ("other.md#trimtab-run-and-what_it_does", ""),
        ("#here", ""),
        ("https://example.org/missing#too", ""),
        ("gone.md", "no such file"),
        ("other.md#costs", "no such heading"),
        ("other.md#costs-in-usd-2", "no such heading"),
        ("picture.png#here", "no such heading"),
        ("#there", "no such heading"),
    ],
)
def test_a_link_without_its_file_or_heading_is_dead(
    tmp_path: Path, link: str, problem: str
) -> None:
    headings = "# Costs, in USD\n\n## Costs in USD\n\n### `trimtab run` and what_it_does?\n"
    (tmp_path / "other.md").write_text(headings)
    (tmp_path / "picture.png").touch()
    document = tmp_path / "document.md"
    document.write_text(f"# Here\n\n| a table |\n|---|\n| [a link]({link}) |\n")
    assert dead_links(document) == ([f"{link}: {problem}"] if problem else [])


def test_a_picture_that_is_not_there_is_dead(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    document.write_text("![Two runs](images/gone.png)\n\n```\n[code](gone.md)\n```\n")
    assert dead_links(document) == ["images/gone.png: no such file"]

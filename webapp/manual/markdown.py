"""One Markdown file as HTML, with anchors at its headings and links to other pages."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

_UNSAID = re.compile(r"[^\w\- ]")


def _code(renderer: object, tokens: Sequence[Token], at: int, *_: object) -> str:
    """Return the code. Lines that are wider than the page scroll by themselves, also by
    keyboard.
    """
    return f'<pre tabindex="0"><code>{escape(tokens[at].content)}</code></pre>\n'


def _table(renderer: object, tokens: Sequence[Token], at: int, *_: object) -> str:
    is_open = tokens[at].type == "table_open"
    return '<div class="table-scroll" tabindex="0"><table>' if is_open else "</table></div>\n"


# Raw HTML is shown as text.
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
for _kind in ("fence", "code_block"):
    _MARKDOWN.add_render_rule(_kind, _code)
for _kind in ("table_open", "table_close"):
    _MARKDOWN.add_render_rule(_kind, _table)

Address = Callable[[str], str | None]
"""The name of a page, such as `decisions/0005-money`, -> its URL; None if there is no such page."""
Drawing = Callable[[str], str | None]
"""The path of an image, such as `images/path.svg`, -> its URL; None if there is no such image."""


@dataclass(frozen=True)
class Section:
    """A heading and the text up to the next one."""

    anchor: str
    """The anchor; empty before the first heading."""
    title: str
    level: int
    text: str


@dataclass(frozen=True)
class Document:
    title: str
    html: SafeString
    """The content without the title."""
    sections: tuple[Section, ...]


def render(
    source: str, name: str, address: Address, drawing: Drawing = lambda path: None
) -> Document:
    """Return the file as HTML. `name` is the page's, from which its relative links lead."""
    tokens = _MARKDOWN.parse(source)
    title = ""
    if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
        title, tokens = _plain(tokens[1]), tokens[3:]
    _set_anchors(tokens)
    _set_links(tokens, name, address)
    _set_images(tokens, name, drawing)
    _set_classes(tokens)
    _set_empty_heads(tokens)
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    # The text is escaped by the renderer, and read from our own files.
    return Document(title or name, mark_safe(html), tuple(_sections(tokens, title)))  # noqa: S308


def _set_anchors(tokens: Sequence[Token]) -> None:
    """Set anchors as GitHub makes them, so that links work there and here."""
    seen: Counter[str] = Counter()
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            slug = _UNSAID.sub("", _plain(inline).lower()).replace(" ", "-")
            token.attrSet("id", f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1


def _set_links(tokens: Sequence[Token], name: str, address: Address) -> None:
    for token in (child for each in tokens for child in each.children or ()):
        href = str(token.attrGet("href") or "")
        path, mark, anchor = href.partition("#")
        if token.type == "link_open" and path.endswith(".md") and ":" not in path:
            target = _resolved(name, path[:-3])
            token.attrSet("href", (address(target) or "") + mark + anchor)


def _set_images(tokens: Sequence[Token], name: str, drawing: Drawing) -> None:
    for token in (child for each in tokens for child in each.children or ()):
        if token.type == "image":
            source = str(token.attrGet("src"))
            token.attrSet("src", drawing(_resolved(name, source)) or source)


def _resolved(name: str, path: str) -> str:
    """Return the path that is relative to the page, relative to the folder of all pages."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def _set_classes(tokens: Sequence[Token]) -> None:
    """Replace styles of elements by classes: our content security policy allows no styles."""
    for token in tokens:
        if token.type in ("th_open", "td_open") and "style" in token.attrs:
            del token.attrs["style"]
            token.attrSet("class", "number")


def _set_empty_heads(tokens: Sequence[Token]) -> None:
    """Make the empty cells of a table's head plain cells: they head no column."""
    for opened, text, closed in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if opened.type == "th_open" and not text.content:
            opened.tag = closed.tag = "td"


def _sections(tokens: Sequence[Token], title: str) -> list[Section]:
    found: list[tuple[str, str, int, list[str]]] = [("", title, 1, [])]
    heading: Token | None = None
    for token in tokens:
        if token.type == "heading_open":
            heading = token
        elif token.type == "inline" and heading is not None:
            found.append((str(heading.attrGet("id")), _plain(token), int(heading.tag[1]), []))
            heading = None
        elif token.type in ("inline", "fence", "code_block"):
            found[-1][3].append(_plain(token))
    return [Section(anchor, of, level, "\n".join(text)) for anchor, of, level, text in found]


def _plain(token: Token) -> str:
    """Return the token's text without marks."""
    if not token.children:
        return token.content
    return "".join(
        " " if child.type in ("softbreak", "hardbreak") else child.content
        for child in token.children
    )

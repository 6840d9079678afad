"""The pages of the documentation, in the order in which they are listed, and the search in them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.urls import reverse

from webapp.manual.markdown import Document, Section, render

FOLDER: Path = settings.BASE_DIR / "docs"
GROUPS: dict[str, tuple[str, ...]] = {
    "Measure": ("agent", "recipes", "importing", "mlflow", "trainings", "series", "overhead"),
    "Understand": ("jobs", "runs", "ledger", "rules", "money", "prices", "export"),
    "Improve": ("recommendations", "advice", "speed", "notifications", "offline"),
    "Operate": (
        *("operations", "configuration", "accounts", "backup", "retention", "threat-model"),
        "figures",
    ),
    "Develop": (
        *("architecture", "development", "wire", "development/add-a-rule"),
        *("development/add-a-series", "development/add-a-page", "development/add-an-importer"),
        *("development/add-a-channel", "development/add-a-provider"),
        *("development/change-the-wire", "development/release"),
    ),
}
"""Title -> names of pages. Decisions follow."""
MOST_FOUND = 30
_AROUND = 80
"""The characters of an excerpt on each side of what was found."""


@dataclass(frozen=True)
class ManualPage:
    name: str
    document: Document

    @property
    def address(self) -> str:
        return reverse("manual:page", args=[self.name])


@dataclass(frozen=True)
class SearchHit:
    """A section with all words that were looked for, and the text around the first of them."""

    page: ManualPage
    section: Section
    before: str
    word: str
    after: str

    @property
    def address(self) -> str:
        return f"{self.page.address}#{self.section.anchor}"


def page(name: str) -> ManualPage | None:
    """Return the page, or None if there is none. Only names of files that are there are looked
    up.
    """
    return next(_pages([name], _paths()), None)


def groups() -> dict[str, list[ManualPage]]:
    """Return the pages by the titles in `GROUPS`. What no group names is with the decisions."""
    paths = _paths()
    named = {name for names in GROUPS.values() for name in names}
    listed = {title: list(_pages(names, paths)) for title, names in GROUPS.items()}
    others = [name for name in paths if name not in named]
    return listed | {"Decisions": list(_pages(others, paths))}


def search(text: str) -> list[SearchHit]:
    """Return the sections that have every word: first those with most of them in their titles, then
    those of pages that are about them, shorter titles first, then those that have them most often.
    """
    words = text.lower().split()
    paths = _paths() if words else {}
    found = []
    for one in _pages(paths, paths):
        about = f"{one.name} {one.document.title}".lower()
        for section in one.document.sections:
            title, body = section.title.lower(), section.text.lower()
            if all(word in title or word in body for word in words):
                hits = sum(word in title for word in words), sum(word in about for word in words)
                brevity = -len(title) if hits[0] else 0
                rank = (*hits, brevity, sum(map(body.count, words)))
                found.append((rank, _excerpt(one, section, words)))
    return [hit for _, hit in sorted(found, key=lambda each: each[0], reverse=True)[:MOST_FOUND]]


def _excerpt(of: ManualPage, section: Section, words: list[str]) -> SearchHit:
    text = section.text.replace("\n", " ")
    places = [(text.lower().find(word), word) for word in words]
    at, word = min(((at, word) for at, word in places if at >= 0), default=(0, ""))
    end = at + len(word)
    before, after = text[:at], text[end:]
    if len(before) > _AROUND:
        before = "… " + before[-_AROUND:].partition(" ")[2]
    if len(after) > _AROUND:
        after = after[:_AROUND].rpartition(" ")[0] + " …"
    return SearchHit(of, section, before, text[at:end], after)


def _pages(names: Iterable[str], paths: Mapping[str, Path]) -> Iterator[ManualPage]:
    """Yield the pages of the names that are among the files."""
    for name in names:
        if path := paths.get(name):
            document = _document(path, name, path.stat().st_mtime_ns, frozenset(paths))
            yield ManualPage(name, document)


def _paths() -> dict[str, Path]:
    """Return the files by their names, sorted."""
    files = sorted([*FOLDER.glob("*.md"), *FOLDER.glob("*/*.md")])
    return {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in files}


@lru_cache(maxsize=200)
def _document(path: Path, name: str, changed_ns: int, known: frozenset[str]) -> Document:
    """Return the page, rendered once, as long as the file stays as it is.

    Args:
        known: the names of all pages, to which links lead.
    """
    del changed_ns

    def address(target: str) -> str | None:
        return reverse("manual:page", args=[target]) if target in known else None

    return render(path.read_text(encoding="utf-8"), name, address, _drawing)


def _drawing(path: str) -> str | None:
    """Return a drawing of the documentation as a data URL, or None if there is none."""
    file = FOLDER / path
    if file.suffix != ".svg" or file.parent != FOLDER / "images" or not file.is_file():
        return None
    return f"data:image/svg+xml;base64,{b64encode(file.read_bytes()).decode()}"

"""Texts as editors and shells save them: with a mark of their order of bytes, or in UTF-16."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def to_utf8(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a text as UTF-8 without a mark. PowerShell's `>` writes UTF-16."""
    each = iter(pieces)
    first = next(each, b"")
    mark, encoding = _encoding(first)
    first = first[len(mark) :]
    if encoding == "utf-8":
        yield first
        yield from each
        return
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    yield decoder.decode(first).encode(errors="replace")
    for piece in each:
        yield decoder.decode(piece).encode(errors="replace")
    if rest := decoder.decode(b"", final=True):
        yield rest.encode(errors="replace")


def _encoding(first: bytes) -> tuple[bytes, str]:
    """Return the mark that a text begins with, and its encoding. Texts have no NUL in UTF-8."""
    for mark, encoding in _ENCODINGS:
        if first.startswith(mark):
            return mark, encoding
    if first[1:2] == b"\0" and first[:1] != b"\0":
        return b"", "utf-16-le"
    if first[:1] == b"\0" and first[1:2] not in (b"\0", b""):
        return b"", "utf-16-be"
    return b"", "utf-8"

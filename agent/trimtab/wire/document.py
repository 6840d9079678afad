"""Reads a body as a JSON object: unpacked in pieces, and limited before it is parsed."""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

from trimtab.wire.limits import Limits, TooLargeError, WireError

_PIECE_BYTES = 256 * 1024
_GZIP = 31
"""zlib's name for gzip with its largest window."""
_BRACKETS = b"[{]}"
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
# Each bracket's change of the level, as a signed byte.
_LEVELS = bytes.maketrans(_BRACKETS, b"\x01\x01\xff\xff")


def read_document(
    body: bytes, limits: Limits, parse: Callable[[str], Any] = json.loads
) -> dict[str, Any]:
    """Decompress and parse one gzip'd JSON object, in less than 100 MB whatever it holds.

    Args:
        parse: gives and raises what `json.loads` does.

    Raises:
        WireError: too large before or after decompression, too deep, too many parts, not gzip,
            not a JSON object in UTF-8.
    """
    if len(body) > limits.body_bytes:
        raise TooLargeError("body", f"over {limits.body_bytes} bytes")
    try:
        document = parse(_bounded_text(body, limits))
    except WireError:
        raise
    except ValueError as error:  # not UTF-8, not JSON, or a number of thousands of digits
        raise WireError("body", f"not JSON: {error}", "Send gzip'd JSON in UTF-8.") from None
    if not isinstance(document, dict):
        raise WireError("body", "not a JSON object", "Send one object per upload.")
    return document


def write_document(document: dict[str, Any]) -> bytes:
    """Return the document as a body, the inverse of `read_document`; equal documents give equal
    bytes.

    Bytes that aren't Unicode (lone surrogates in Python) become "?", because they can't be stored.
    """
    text = json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    return packer.compress(text.encode(errors="replace")) + packer.flush()


def _bounded_text(body: bytes, limits: Limits) -> str:
    content, shape = bytearray(), _Shape(limits)
    for piece in _unpacked(body):
        content += piece
        if len(content) > limits.document_bytes:
            raise TooLargeError("body", f"over {limits.document_bytes} bytes unpacked")
        shape.add(piece)
    return content.decode()


def _unpacked(body: bytes) -> Iterator[bytes]:
    stream, left = zlib.decompressobj(wbits=_GZIP), body
    while not stream.eof:
        try:
            piece = stream.decompress(left, _PIECE_BYTES)
        except zlib.error as error:
            raise WireError("body", f"not gzip: {error}", "Compress the JSON with gzip.") from None
        left = stream.unconsumed_tail
        if not piece and not left and not stream.eof:
            raise WireError("body", "the gzip stream is cut off", "Send the whole body.")
        yield piece
    if stream.unused_data:
        raise WireError("body", "something follows the gzip stream", "Send one gzip stream.")


class _Shape:
    """Counts levels and parts of a JSON text, piece by piece, without parsing it.

    Counts are right up to the first syntax error, where a parser stops.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._depth = self._lists = self._values = self._quotes = 0
        self._held_back = b""

    def add(self, piece: bytes) -> None:
        """Count a piece. Raises WireError as soon as a limit is exceeded."""
        bare = self._outside_texts(piece)
        levels = array("b", bare.translate(_LEVELS, _ALL_BUT_BRACKETS))
        deepest = max(accumulate(levels, initial=self._depth))
        self._depth += sum(levels)
        self._lists += levels.count(1)
        self._values += bare.count(b",")
        most = self._limits
        if deepest > most.depth:
            problem, fix = f"over {most.depth} levels deep", "Send the documented shape."
            raise WireError("body", problem, fix)
        _check(self._lists, most.containers, "lists and objects")
        _check(self._values, most.values, "values")
        _check(self._quotes // 2, most.texts, "texts and names")

    def _outside_texts(self, piece: bytes) -> bytes:
        """Return the piece without quoted text; escapes are removed first."""
        text = (self._held_back + piece).replace(b"\\\\", b"")
        # A lone backslash at the end belongs to the next piece.
        self._held_back = text[len(text.rstrip(b"\\")) :]
        parts = text.replace(b'\\"', b"").split(b'"')
        bare = b"".join(parts[self._quotes % 2 :: 2])
        self._quotes += len(parts) - 1
        return bare


def _check(count: int, most: int, what: str) -> None:
    if count > most:
        raise TooLargeError("body", f"over {most} {what}")

"""Unpacks gzip'd bytes of unknown origin: piece by piece, and never more than a bound."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from advisor.importers.bounds import in_gib
from advisor.importers.recording import NotImportableError

PIECE_BYTES = 256 * 1024
_PACKED_BYTES = 16 * 1024
"""Read at once. What is left of it after a stream is copied for each stream."""
_MOST_STREAMS = 300_000
"""The most streams of a file: `bgzip` makes one of each 64 KiB, and an empty one takes 20 bytes."""
_GZIP = 31
"""zlib's name for gzip with its largest window."""


class CutOffError(NotImportableError):
    """Raised where the packed bytes end too early. All pieces before that were given."""


@dataclass
class UnpackBudget:
    """Bytes that may be unpacked, of one file or of several together."""

    whole: int
    taken: int = 0

    def take(self, size: int) -> None:
        """Take as many bytes. Raises NotImportableError if there are fewer left."""
        self.taken += size
        if self.taken > self.whole:
            raise NotImportableError(f"more than {in_gib(self.whole)} unpacked")


def pieces(packed: IO[bytes], budget: UnpackBudget) -> Iterator[bytes]:
    """Yield the content, in pieces of at most `PIECE_BYTES`.

    Raises:
        NotImportableError: damaged, no gzip at all, or more than the budget.
        CutOffError
    """
    rest = packed.read(_PACKED_BYTES)
    for _ in range(_MOST_STREAMS):
        stream = zlib.decompressobj(wbits=_GZIP)
        while not stream.eof:
            rest = rest or packed.read(_PACKED_BYTES)
            piece = _piece(stream, rest)
            if not piece and not rest and not stream.eof:
                raise CutOffError("the gzip stream is cut off")
            rest = stream.unused_data or stream.unconsumed_tail
            budget.take(len(piece))
            if piece:
                yield piece
        # Zeros may fill a file up.
        while not (rest := rest.lstrip(b"\0")):
            if not (rest := packed.read(_PACKED_BYTES)):
                return
    raise NotImportableError(f"more than {_MOST_STREAMS:,} gzip streams in one file")


def _piece(stream: zlib._Decompress, packed: bytes) -> bytes:
    try:
        return stream.decompress(packed, PIECE_BYTES)
    except zlib.error as error:
        raise NotImportableError(f"damaged, or not gzip: {error}") from None

"""The file of a W&B run: LevelDB's log framing around Protocol Buffers.

https://github.com/google/leveldb/blob/main/doc/log_format.md: blocks of 32 KiB with fragments of
records. W&B begins the file with seven bytes of its own, and checks with CRC-32 (that of zlib) over
the fragment's type and content, unmasked. A run that was killed ends within a record.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import IO

from advisor.importers.tally import Tally

HEAD = b":W&B\xe1\xbe\x00"
_BLOCK_BYTES = 32 * 1024
_FRAGMENT = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MOST_BYTES = 8 * 1024 * 1024
"""The most bytes of one record. Larger ones hold tables and logs."""


def records(file: IO[bytes], tally: Tally, where: str) -> Iterator[bytes]:
    """Yield the content of each whole record of a file that is at its beginning."""
    parts: list[bytes] = []
    size = 0
    for kind, body in _fragments(file, tally, where):
        if body is None:
            parts = []
            continue
        if kind in (_FULL, _FIRST):
            tally.skip("records", "without their end", bool(parts), where)
            parts, size = [], 0
        elif not parts:
            continue  # what it continues is damaged
        parts.append(body)
        size += _FRAGMENT.size + len(body)
        if size > _MOST_BYTES:
            tally.skip("records", "too large: tables, logs, ...", 1, where)
            parts = []
        elif kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts = []
    tally.skip("records", "cut off at the end of the file", bool(parts), where)


def _fragments(file: IO[bytes], tally: Tally, where: str) -> Iterator[tuple[int, bytes | None]]:
    """Yield kind and content of each fragment; None if it is damaged, and so is its record."""
    at = len(HEAD)
    while block := file.read(_BLOCK_BYTES):
        while at + _FRAGMENT.size <= len(block):
            crc, length, kind = _FRAGMENT.unpack_from(block, at)
            body = block[at + _FRAGMENT.size : at + _FRAGMENT.size + length]
            if not kind and not length:
                break  # the rest of the block is empty
            at += _FRAGMENT.size + length
            if at > len(block):
                why = "cut off at the end of the file, or of a wrong length"
                tally.skip("records", why, 1, where)
                yield kind, None
                break
            if kind not in (_FULL, _FIRST, _MIDDLE, _LAST) or _crc(kind, body) != crc:
                tally.skip("records", "a wrong checksum", 1, where)
                yield kind, None
            else:
                yield kind, body
        at = 0


def _crc(kind: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(bytes([kind])))

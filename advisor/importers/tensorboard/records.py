"""TFRecord files: records with a length and checksums.

https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details. A record whose
checksum is wrong is skipped; where a length is wrong nothing says where the next record begins.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO

from advisor.importers.tally import Tally

MOST_BYTES = 64 * 1024
"""The most bytes of a record with scalars. Larger ones are graphs, images and audio."""
_HEAD, _FOOT = struct.Struct("<QI"), struct.Struct("<I")
_LONGEST = 2**40
_POLYNOMIAL = 0x82F63B78
"""The polynomial of CRC-32C (Castagnoli), reflected: RFC 3720, appendix B.4."""


def _table() -> tuple[int, ...]:
    found = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        found.append(byte)
    return tuple(found)


_TABLE = _table()


def crc32c(body: bytes) -> int:
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in body:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def mask_checksum(crc: int) -> int:
    """Return the checksum as TFRecord stores it: rotated, and a constant added."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(file: IO[bytes], tally: Tally, where: str) -> Iterator[bytes]:
    """Yield the content of each whole record that is small enough for scalars."""
    while head := file.read(_HEAD.size):
        if len(head) < _HEAD.size:
            tally.skip("records", "cut off at the end of its file", 1, where)
            return
        length, crc = _HEAD.unpack(head)
        if mask_checksum(crc32c(head[:8])) != crc or length > _LONGEST:
            tally.skip("files", "damaged: the rest of it can't be read", 1, where)
            return
        if length > MOST_BYTES:
            file.seek(length + _FOOT.size, 1)
            tally.skip("records", "too large for scalars: graphs, images, ...", 1, where)
            continue
        rest = file.read(length + _FOOT.size)
        if len(rest) < length + _FOOT.size:
            tally.skip("records", "cut off at the end of its file", 1, where)
        elif mask_checksum(crc32c(rest[:length])) != _FOOT.unpack(rest[length:])[0]:
            tally.skip("records", "a wrong checksum", 1, where)
        else:
            yield rest[:length]

"""Protocol Buffers' wire format, read field by field.

https://protobuf.dev/programming-guides/encoding/. No schema is needed, nothing is built that isn't
asked for, and what is damaged costs the message that it is in. A file of hundreds of MB needs
little memory so.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_FIRST_UNUSED = 64
"""No message that is read has a field with a higher number; a hostile one may have millions."""

Body = bytes | memoryview
Value = int | memoryview
"""An integer (unsigned) of a varint; else the bytes of the field."""

EMPTY = memoryview(b"")


class DamagedError(ValueError):
    """The bytes aren't a protobuf message."""


def fields(message: Body) -> Iterator[tuple[int, Value]]:
    """Yield number and value of each field, in order.

    Raises:
        DamagedError: from there on it can't be read.
    """
    body, at = memoryview(message), 0
    while at < len(body):
        key, at = _varint(body, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(body, at)
            yield number, value
            continue
        if kind == BYTES:
            length, at = _varint(body, at)
        elif kind in (FIXED_64, FIXED_32):
            length = 8 if kind == FIXED_64 else 4
        else:
            raise DamagedError(f"a field of kind {kind}")
        if at + length > len(body) or not number:
            raise DamagedError("a field that is longer than its message")
        yield number, body[at : at + length]
        at += length


def by_number(message: Body) -> dict[int, Value]:
    """Return the last value of each field. Raises DamagedError."""
    return {found: value for found, value in fields(message) if found < _FIRST_UNUSED}


def children(message: Body, number: int) -> Iterator[memoryview]:
    """Yield the fields of this number that are messages, texts or bytes. Raises DamagedError."""
    for found, value in fields(message):
        if found == number and isinstance(value, memoryview):
            yield value


def text(value: Value) -> str:
    return bytes(value).decode(errors="replace") if isinstance(value, memoryview) else ""


def to_signed(value: Value) -> int:
    """Return an int32, int64 or bool; 0 if it is of another kind."""
    if not isinstance(value, int):
        return 0
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def number(value: Value) -> float | None:
    """Return a float or double; None if it is of another kind."""
    size = len(value) if isinstance(value, memoryview) else 0
    if not isinstance(value, memoryview) or size not in (4, 8):
        return None
    return float(struct.unpack("<f" if size == 4 else "<d", value)[0])


def packed_varints(value: Value) -> Iterator[int]:
    """Yield the values of a repeated integer, packed or a single one. Raises DamagedError."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        each, at = _varint(value, at)
        yield each


def _varint(body: memoryview, at: int) -> tuple[int, int]:
    """Return the integer, and where the next field begins."""
    value = shift = 0
    for place in range(at, min(at + _LONGEST_VARINT, len(body))):
        byte = body[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise DamagedError("an integer without an end")

"""Named parts of bytes in one object, with a header and a checksum."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from advisor.store.chunks import ChunkError, damage_refused

_LENGTH_BYTES = 4
_ALIGNED_BYTES = 64
"""The alignment that Arrow expects of its buffers; its files are multiples of 8 bytes long."""


def pack_parts(magic: bytes, header: Mapping[str, Any], parts: Mapping[str, bytes]) -> bytes:
    """Return the object of these parts; `unpack_parts` is the way back."""
    body = b"".join(parts.values())
    lengths = {name: len(part) for name, part in parts.items()}
    document = {**header, "parts": lengths, "crc": zlib.crc32(body)}
    head = json.dumps(document, separators=(",", ":")).encode()
    head += b" " * (-(len(magic) + _LENGTH_BYTES + len(head)) % _ALIGNED_BYTES)
    return b"".join([magic, len(head).to_bytes(_LENGTH_BYTES, "big"), head, body])


def unpack_parts(magic: bytes, body: bytes) -> tuple[dict[str, Any], dict[str, pa.Buffer]]:
    """Return the header and the parts, which aren't copied.

    Raises:
        ChunkError: the bytes begin otherwise, or are damaged.
    """
    if not body.startswith(magic):
        raise ChunkError(f"not a {magic.decode().strip()}")
    with damage_refused():
        head_at = len(magic) + _LENGTH_BYTES
        begin = head_at + int.from_bytes(body[len(magic) : head_at], "big")
        header: dict[str, Any] = json.loads(body[head_at:begin])
        if zlib.crc32(memoryview(body)[begin:]) != header["crc"]:
            raise ChunkError("damaged: its checksum differs")
        whole, parts = pa.py_buffer(body), {}
        for name, length in header["parts"].items():
            parts[name] = whole.slice(begin, length)
            begin += length
        return header, parts

"""Several upload bodies in one request: before each its length, as four bytes, the highest first.

The bodies stay as they are: the service stores them, and identifies them by their hashes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from trimtab.wire.limits import LIMITS, Limits, TooLargeError, WireError

_LENGTH = struct.Struct(">I")
LENGTH_BYTES = _LENGTH.size
MOST_EXPANSION = 1032
"""The most bytes that gzip makes of one: https://zlib.net/zlib_tech.html."""


def join_bodies(bodies: Sequence[bytes]) -> bytes:
    return b"".join(_LENGTH.pack(len(body)) + body for body in bodies)


def split_bodies(joined: bytes, limits: Limits = LIMITS) -> list[bytes]:
    """Split what `join_bodies` joined; at least one body.

    Raises:
        WireError: too many bodies, none, or a length that doesn't fit.
    """
    bodies: list[bytes] = []
    place = 0
    while place < len(joined):
        if len(bodies) == limits.bodies:
            raise TooLargeError("body", f"over {limits.bodies} segments")
        begin = place + LENGTH_BYTES
        place = begin + int.from_bytes(joined[place:begin], "big")
        if place > len(joined) or begin >= place:
            raise WireError("body", "cut off, or a length is wrong", "Send the whole body.")
        bodies.append(joined[begin:place])
    if not bodies:
        raise WireError("body", "no segments", "Send one segment at least.")
    return bodies


def unpacked_bytes(body: bytes, is_valid: bool) -> int:
    """Return the size of a gzip'd body when it is unpacked.

    Args:
        is_valid: it was unpacked before, so what it says is true. Else the most that it could be.
    """
    return int.from_bytes(body[-4:], "little") if is_valid else len(body) * MOST_EXPANSION

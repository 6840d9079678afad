"""Bodies of files as damage or malice makes them."""

from __future__ import annotations

import random


def mutations(body: bytes, chance: random.Random) -> bytes:
    """Return the body with some bytes changed, cut, repeated or replaced by what parsers
    dislike.
    """
    nasty = [b"{", b"[" * 5000, b"1e999", b"-1", b"null", b"\x00", b"\xff\xfe", b'"', b"9" * 400]
    changed = bytearray(body)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(changed) + 1)
        end = min(at + chance.randint(0, 40), len(changed))
        changed[at:end] = chance.choice([b"", bytes([chance.randrange(256)]), *nasty])
    return bytes(changed[: chance.choice([len(changed), chance.randint(0, len(changed))])])

"""Parses JSON of unknown origin, in memory that follows from its bytes."""

from __future__ import annotations

import json
from typing import Any

_MOST = {b"{": 1_500_000, b"[": 4_000_000, b",": 8_000_000}
"""The most of each character in a text: about 600 MB of objects. In 64 MiB, a trace has 500,000
objects, and an answer of Prometheus 3,700,000 lists. What stands in texts counts, too."""


def parse_json(body: bytes | str) -> Any:
    """Return the document.

    Raises:
        ValueError: it isn't JSON, is nested too deeply, or has too many parts.
    """
    raw = body.encode(errors="replace") if isinstance(body, str) else body
    for mark, most in _MOST.items():
        if raw.count(mark) > most:
            raise ValueError(f"more than {most:,} of {mark.decode()!r} in it")
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None

"""The limits of an upload, and the errors that name what exceeds them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

SERIES_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+(:(min|mean|max|count))?\Z")


class WireError(ValueError):
    """An invalid upload: the field, the problem, and the fix."""

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem}. {fix}")
        self.field = field
        self.problem = problem
        self.fix = fix


class TooLargeError(WireError):
    """The upload is too large; its halves may be accepted."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem, "Send smaller segments.")


@dataclass(frozen=True)
class Limits:
    """Limits that both sides know: the agent splits below them, the service refuses above them."""

    body_bytes: int = 2 * 1024 * 1024
    document_bytes: int = 8 * 1024 * 1024
    depth: int = 32
    """Nesting of lists and objects; a segment has 6."""
    containers: int = 100_000
    values: int = 750_000
    texts: int = 200_000
    """The most texts, including names. These three limit the cost of parsing to 100 MB."""
    name_chars: int = 120
    text_chars: int = 2_000
    series: int = 4_000
    ticks: int = 20_000
    samples: int = 2_000_000
    """The most samples of a whole segment: a column of one repeated value is a few bytes, whatever
    its length."""
    events: int = 10_000
    steps: int = 50_000
    """The most steps of a whole segment."""
    step_blocks: int = 1_000
    slowest: int = 100
    bodies: int = 100
    """The most segments of one request. Together they are at most `body_bytes` and, unpacked,
    `document_bytes`, as a single one."""


LIMITS = Limits()


def text(document: dict[str, Any], field: str, limits: Limits, default: str | None = None) -> str:
    """Return a required (or defaulted) string field of at most `limits.name_chars` characters."""
    value = document.get(field, default)
    if not isinstance(value, str) or (not value and default != ""):
        raise WireError(field, "missing or not text", "Send a non-empty string.")
    if len(value) > limits.name_chars:
        raise WireError(field, f"over {limits.name_chars} characters", "Shorten it.")
    if not is_storable(value):
        raise WireError(field, "has a NUL or a lone surrogate", "Send plain Unicode text.")
    return value


def printable(value: str) -> str:
    """Return at most 80 characters of an untrusted name, safe to store and show."""
    shown = value[:80].encode("utf-8", "backslashreplace").decode()
    return shown.replace("\0", "\\x00")


def is_storable(value: str) -> bool:
    """Return whether databases take the text: NUL and lone surrogates, both of which JSON can
    carry, they don't.
    """
    if "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_scalar(value: Any, limits: Limits) -> bool:
    """Return whether the value is text of at most `limits.text_chars`, a number of at most 64 bits,
    a boolean or None.
    """
    if isinstance(value, str):
        return len(value) <= limits.text_chars and is_storable(value)
    if isinstance(value, int):
        return abs(value) < 2**63
    return value is None or isinstance(value, float)


def integer(
    document: dict[str, Any],
    field: str,
    low: int = 0,
    high: int = 2**63 - 1,
    default: int | None = None,
) -> int:
    """Return a required (or defaulted) integer field within [low, high]."""
    value = document.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise WireError(field, "missing or not an integer", "Send an integer.")
    if not low <= value <= high:
        raise WireError(field, f"outside {low}..{high}", "Send a value inside the range.")
    return value

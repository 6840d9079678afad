"""Tags as people write them: one `key=value` per line."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.wire import LIMITS

MOST_TAGS = 500
"""The same limit as for agents."""


def as_lines(tags: Mapping[str, object]) -> str:
    return "\n".join(f"{key}={value}" if value != "" else key for key, value in tags.items())


def from_lines(text: str) -> dict[str, str]:
    """Parse tags. A line without `=` is a key with an empty value. Raises ValueError as `check`."""
    tags: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.split("\n"))):
        key, _, value = line.partition("=")
        tags[key.strip()] = value.strip()
    check(tags)
    return tags


def check(tags: Mapping[str, str]) -> None:
    """Check tags. Raises ValueError for too many tags, an empty key, or text that is too long."""
    if len(tags) > MOST_TAGS:
        raise ValueError(f"{len(tags)} tags are too many; the limit is {MOST_TAGS}.")
    for key, value in tags.items():
        if not key:
            raise ValueError(f"“{value[:40]}” has no key. Write key=value.")
        if max(len(key), len(value)) > LIMITS.name_chars:
            raise ValueError(f"“{key[:40]}” is longer than {LIMITS.name_chars} characters.")

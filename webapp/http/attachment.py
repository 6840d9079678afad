"""Answers that browsers and tools save as a file."""

from __future__ import annotations

from django.utils.http import content_disposition_header

_OF_PATHS = "/\\"


def attachment(name: str) -> str:
    """Return the Content-Disposition that saves an answer under this name, whatever is in it."""
    safe = "".join("-" if c in _OF_PATHS or not c.isprintable() else c for c in name)
    return str(content_disposition_header(True, safe))

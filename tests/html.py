"""Pages as a browser reads them: how a template is wrapped makes no difference to a test."""

from __future__ import annotations

import re
from typing import Any

_KEPT = re.compile(r"(<(pre|textarea|script|style)\b.*?</\2>)", re.DOTALL)
"""Elements whose whitespace counts."""


def read_page(response: Any) -> str:
    """Return the body of a response of Django's test client, an HTML page without the whitespace
    that a browser drops. Anything else is returned as it is.
    """
    body: str = response.content.decode()
    return without_wrapping(body) if "html" in response.headers.get("Content-Type", "") else body


def without_wrapping(html: str) -> str:
    """Return a page with one space where it has several or a line break, and with none between two
    tags, at the edges of an element, or before the end of a tag.
    """
    parts = _KEPT.split(html)
    # Each element whose whitespace counts is followed by its name, a group of its own.
    return "".join(
        _joined(part) if at % 3 == 0 else part for at, part in enumerate(parts) if at % 3 != 2
    )


def _joined(html: str) -> str:
    spaced = re.sub(r"\s+", " ", html)
    spaced = re.sub(r" (/?>)", r"\1", spaced)
    spaced = re.sub(r"(<[a-z][^<>]*>) ", r"\1", spaced)
    spaced = re.sub(r" (</)", r"\1", spaced)
    return re.sub(r"> <", "><", spaced)

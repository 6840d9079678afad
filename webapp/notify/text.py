"""Makes names that others chose safe for one line of a mail."""

from __future__ import annotations

ELLIPSIS = "…"


def one_line(text: object, at_most: int = 300) -> str:
    """Return one line without control characters, cut at a length.

    A job can have any name. Line breaks would start a new header or paragraph, and characters that
    reverse the writing direction could disguise a text.
    """
    visible = "".join(each if each.isprintable() else " " for each in str(text))
    line = " ".join(visible.split())
    return line if len(line) <= at_most else line[: at_most - 1].rstrip() + ELLIPSIS

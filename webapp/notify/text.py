"""What others have named, made safe for one line of a mail."""

from __future__ import annotations

ELLIPSIS = "…"


def one_line(text: object, at_most: int = 300) -> str:
    """One line without control characters, cut at a length.

    A job may be called anything. Line ends would begin a header or a paragraph of their own, and
    characters that turn the direction of writing around can make a text read as another one.
    """
    visible = "".join(each if each.isprintable() else " " for each in str(text))
    line = " ".join(visible.split())
    return line if len(line) <= at_most else line[: at_most - 1].rstrip() + ELLIPSIS

"""Cells of CSV files that people open in a spreadsheet."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def plain_cell(value: object) -> str:
    """Return the value as text that no spreadsheet takes for a formula; numbers stay numbers.

    Names come from people and machines, and a cell that begins like a formula is run by the
    reader's program (OWASP, "CSV injection"): a quote before it makes it text.
    """
    if value is None:
        return ""
    text = str(value)
    if isinstance(value, str) and text.startswith(_FORMULA):
        return f"'{text}"
    return text

"""The risk of a recommendation in words, alike on pages, in mails and on the terminal."""

from __future__ import annotations

RISKS = ((0.8, "very low"), (1.6, "low"), (2.4, "medium"), (3.2, "high"), (4.0, "very high"))
"""The words for risks up to these limits, of 4."""


def describe_risk(risk: float) -> str:
    """Return the words for a risk from 0 to 4."""
    return next((words for most, words in RISKS if risk <= most), RISKS[-1][1])

"""Decides which refusals of the service are final.

A refusal is problem+json (RFC 9457). Its `type` is the address of the service's page of problem
types and, after "#", the name of the type. Only these types mean that the same upload can never be
accepted. No other answer says so: it may come from a proxy, or its cause may go away.
"""

from __future__ import annotations

from urllib.parse import urlsplit

PROBLEM_TYPE = "application/problem+json"
PROBLEMS_PATH = "/problems/"
FINAL_PROBLEMS = frozenset(
    {"invalid-upload", "segment-conflict", "session-conflict", "too-many-labels"}
)
IMPORT_QUOTA = "import-quota"
"""The type of a quota of imports: they have to wait, perhaps for hours; the service takes
everything else."""


def is_final(problem_type: object) -> bool:
    """Return whether a problem's `type` is one of the service's own that are final.

    The host doesn't count: agents may reach the service under another name than browsers.
    """
    return _name_of(problem_type) in FINAL_PROBLEMS


def is_import_quota(problem_type: object) -> bool:
    """Return whether a problem's `type` is the one of a quota of imports."""
    return _name_of(problem_type) == IMPORT_QUOTA


def _name_of(problem_type: object) -> str:
    """Return the name of one of the service's own types; empty for any other."""
    try:
        address = urlsplit(str(problem_type))
    except ValueError:
        return ""
    return address.fragment if address.path.endswith(PROBLEMS_PATH) else ""

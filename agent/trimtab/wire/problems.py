"""Which refusals of the service are final.

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


def is_final(problem_type: object) -> bool:
    """Whether a problem's `type` is one of the service's own that are final.

    The host doesn't count: agents may reach the service under another name than browsers.
    """
    try:
        address = urlsplit(str(problem_type))
    except ValueError:
        return False
    return address.path.endswith(PROBLEMS_PATH) and address.fragment in FINAL_PROBLEMS

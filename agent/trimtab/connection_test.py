"""Tests a service's address and token without storing anything there."""

from __future__ import annotations

from uuid import uuid4

from trimtab.identity import Server
from trimtab.transport import Connection, Verdict


def connection_problem(server: Server) -> str:
    """Return what is wrong with the connection; empty if the service accepts the token.

    Sends an empty body, which the service refuses and doesn't store.

    Raises:
        ValueError: the address is not a URL.
    """
    answer = Connection(server).put(f"runs/{uuid4()}", b"", "application/octet-stream")
    if answer.status == 0:
        return f"{server.url} doesn't answer: {answer.problem}"
    if answer.verdict is Verdict.NOT_ALLOWED:
        return f"{server.url} refuses the token: {answer.problem}"
    if answer.is_problem and answer.status in (400, 411, 413, 415, 422):
        return ""  # it refused only the empty body
    return f"{server.url} answered {answer.problem}. Check that it is Trimtab's address"

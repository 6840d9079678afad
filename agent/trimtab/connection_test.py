"""Tests a service's address and token without storing anything there."""

from __future__ import annotations

from uuid import uuid4

from trimtab.identity import ServiceAccess
from trimtab.transport import ServiceConnection, UploadVerdict


def connection_problem(server: ServiceAccess) -> str:
    """Return what is wrong with the connection; empty if the service accepts the token.

    Sends an empty body, which the service refuses and doesn't store.

    Raises:
        ValueError: the address is not a URL.
    """
    answer = ServiceConnection(server).put(f"runs/{uuid4()}", b"", "application/octet-stream")
    if answer.status == 0:
        return f"{server.url} doesn't answer: {answer.problem}"
    if answer.verdict is UploadVerdict.NOT_ALLOWED:
        return f"{server.url} refuses the token: {answer.problem}"
    if answer.is_problem and answer.status in (400, 411, 413, 415, 422):
        return ""  # it refused only the empty body
    return f"{server.url} answered {answer.problem}. Check that it is Trimtab's address"

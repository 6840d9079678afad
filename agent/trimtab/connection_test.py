"""Asks a service whether it would take an upload, without leaving anything there."""

from __future__ import annotations

from uuid import uuid4

from trimtab.identity import Server
from trimtab.transport import Connection


def connection_problem(server: Server) -> str:
    """Empty if the service answers and takes the token; it is sent nothing that it could keep.

    Raises:
        ValueError: the address is none.
    """
    answer = Connection(server).put(f"runs/{uuid4()}", b"", "application/octet-stream")
    if answer.status == 0:
        return f"{server.url} doesn't answer: {answer.problem}"
    if answer.status in (401, 403):
        return f"{server.url} doesn't take the token: {answer.problem}"
    if answer.status in (400, 411, 413, 415, 422):
        return ""  # it would have taken a body that is one
    return f"{server.url} answers {answer.problem}: is it Trimtab's address?"

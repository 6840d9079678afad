"""Answers many requests of the same kind at a time, around Django.

For an upload of some kilobytes, what Django does for any request and the way to a thread and back
cost as much as the work itself. So the web server gathers such requests for a moment, and one
thread answers all of them. Each is also an operation of the API, and gets the same answer there:
what the web server doesn't gather, because it is large or unusual, takes that way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.middleware.security import SecurityMiddleware

MOST_REMEMBERED = 16
"""The most names of this service, and headers of its proxies, that are remembered."""


@dataclass(frozen=True)
class WholeRequest:
    """A whole request."""

    target: str
    headers: Mapping[str, str]
    """Headers by their names in lower case."""
    body: bytes
    address: str
    """The client's address."""


AnswerOrWork = HttpResponse | Callable[[], HttpResponse]
"""An answer, or a callable that takes longer and is called in its own thread, so that it delays no
other request."""


class Operation(Protocol):
    """Operation of the API whose requests are answered many at a time."""

    def takes(self, method: str, target: str) -> bool:
        """Return whether requests like this one are answered here."""

    def answers(self, asked: Sequence[WholeRequest]) -> Sequence[AnswerOrWork]:
        """Return an answer for each request in turn. A request that can't be answered has an answer
        as well, so that it fails no others.
        """


@lru_cache(MOST_REMEMBERED)
def is_own_host(name: str) -> bool:
    """Return whether a request may name this host; otherwise Django says what is wrong."""
    request = HttpRequest()
    request.META["HTTP_HOST"] = name
    try:
        request.get_host()
    except DisallowedHost:
        return False
    return True


@lru_cache(MOST_REMEMBERED)
def middleware_headers(forwarded_proto: str) -> tuple[tuple[str, str], ...]:
    """Return the headers that middleware adds to an answer of the API.

    Args:
        forwarded_proto: how the client reached the proxy; empty: there is none.
    """
    request, bare = HttpRequest(), HttpResponse()
    request.META["HTTP_X_FORWARDED_PROTO"] = forwarded_proto
    said = SecurityMiddleware(lambda _: bare).process_response(request, HttpResponse())
    return tuple(field for field in said.items() if field[0] not in bare)

"""Requests of which very many come, and which are alike: answered many at a time, around Django.

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
"""Names of this service, and headers of its proxies."""


@dataclass(frozen=True)
class Asked:
    """A whole request."""

    target: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    address: str
    """The client's."""


Answered = HttpResponse | Callable[[], HttpResponse]
"""What takes longer is called in a thread of its own, so that it holds up no other request."""


class Operation(Protocol):
    """Of the API."""

    def takes(self, method: str, target: str) -> bool:
        """Whether requests like this one are answered here."""

    def answers(self, asked: Sequence[Asked]) -> Sequence[Answered]:
        """For each in turn. What can't be answered is an answer as well: none fails others."""


@lru_cache(MOST_REMEMBERED)
def is_own_host(name: str) -> bool:
    """Whether a request may name this host; otherwise Django says what is wrong."""
    request = HttpRequest()
    request.META["HTTP_HOST"] = name
    try:
        request.get_host()
    except DisallowedHost:
        return False
    return True


@lru_cache(MOST_REMEMBERED)
def headers_of_middleware(forwarded_proto: str) -> tuple[tuple[str, str], ...]:
    """What middleware adds to an answer of the API.

    Args:
        forwarded_proto: how the client reached the proxy; empty: there is none.
    """
    request, bare = HttpRequest(), HttpResponse()
    request.META["HTTP_X_FORWARDED_PROTO"] = forwarded_proto
    said = SecurityMiddleware(lambda _: bare).process_response(request, HttpResponse())
    return tuple(field for field in said.items() if field[0] not in bare)

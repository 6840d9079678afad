"""Requests whose last part is done for many of them at once.

A view that has done its own part says what is left, and is done. The web server gathers what is
left of many requests for a moment, has one thread do it for all, and then answers each. No thread
waits meanwhile. Where nothing gathers, as in tests of a single view, nothing can be postponed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

_KEY = "trimtab.postponed"
"""In the WSGI environment; what comes from a client has other names there."""


@dataclass(frozen=True)
class Postponed:
    part: Any
    write: Callable[[Sequence[Any]], Sequence[Any]]
    """Does many parts at once. Returns the result of each; exceptions are results."""
    answer: Callable[[Any], HttpResponse]
    """By the result of its part. Runs in the thread that does the parts of all, in turn."""


def offer(environ: dict[str, Any]) -> None:
    environ[_KEY] = None


def is_offered(request: HttpRequest) -> bool:
    return _KEY in request.META


def postpone(request: HttpRequest, what: Postponed) -> HttpResponse:
    """What the view answers. Of this, only the headers that middleware adds are sent."""
    request.META[_KEY] = what
    return HttpResponse()


def left_of(environ: dict[str, Any]) -> Postponed | None:
    left: Postponed | None = environ[_KEY]
    return left

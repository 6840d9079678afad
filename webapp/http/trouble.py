"""Tells trouble of the service's surroundings from errors in the code: a database that restarts, a
full disk, a store that is away. Trouble passes: the answer is 503 with Retry-After, and a line a
minute is logged.
"""

from __future__ import annotations

import errno
import logging
import math
import sqlite3
import sys
import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.defaults import server_error

from advisor.store.objects import StoreAwayError
from webapp.http.problems import API_PATH, Problem

RETRY_SECONDS, LOGGED_EVERY_SECONDS = 30, 60

_DATABASE_AWAY = "The service's database doesn't answer at present."
_NOT_MIGRATED = "The service's database is being updated."
_STORE_AWAY = "The service's object store doesn't answer at present."
_FILES = {
    errno.ENOSPC: "The service's disk is full.",
    errno.EDQUOT: "The service's disk is full.",
    errno.EROFS: "The service's disk is read-only at present.",
    errno.EACCES: "The service may not use its files at present.",
    errno.EIO: "The service's disk doesn't answer at present.",
    errno.ESTALE: "The service's disk doesn't answer at present.",
}
_SQLITE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
}
"""Primary result codes, https://sqlite.org/rescode.html. Every other one is an error in a query."""
_SQLITE_NOT_MIGRATED = ("no such table", "no such column", "has no column named")
_POSTGRES = ("08", "25006", "40", "53", "55", "57", "58")
"""Classes and codes of https://www.postgresql.org/docs/current/errcodes-appendix.html: connections,
read-only, rolled back, out of resources, not ready, stopped by the operator, of the system."""
_POSTGRES_NOT_MIGRATED = ("42P01", "42703")

logger = logging.getLogger(__name__)
_logged_at: dict[str, float] = {}
"""Monotonic seconds, by reason."""


def reason(error: BaseException | None) -> str:
    """Return the trouble in words for everybody, or an empty text for an error in the code."""
    if isinstance(error, StoreAwayError):
        return _STORE_AWAY
    if isinstance(error, (DatabaseError, InterfaceError)):
        return _of_database(error)
    return _FILES.get(error.errno or 0, "") if isinstance(error, OSError) else ""


def _of_database(error: Exception) -> str:
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE:
            return _DATABASE_AWAY
        return _NOT_MIGRATED if any(words in str(cause) for words in _SQLITE_NOT_MIGRATED) else ""
    state = getattr(cause, "sqlstate", None)
    if state is None:  # No answer of the server
        return _DATABASE_AWAY if isinstance(error, (OperationalError, InterfaceError)) else ""
    if state in _POSTGRES_NOT_MIGRATED:
        return _NOT_MIGRATED
    return _DATABASE_AWAY if state.startswith(_POSTGRES) else ""


class TroubleMiddleware:
    """Answers trouble within a view or operation."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        return answer(request.path_info, error)


def broken(request: HttpRequest) -> HttpResponse:
    """Answers trouble outside of views, as in a session's look-up; else with 500. Django calls it
    as `handler500`.
    """
    return answer(request.path_info, sys.exc_info()[1]) or server_error(request)


def answer(path: str, error: BaseException | None) -> HttpResponse | None:
    """Return 503 as a problem or a page, or None for an error in the code."""
    found = problem(error)
    if found is None:
        return None
    if path.startswith(API_PATH):
        return found.response()
    page = render_to_string("503.html", {"why": found.detail})
    return HttpResponse(page, status=503, headers=found.headers)


def problem(error: BaseException | None) -> Problem | None:
    """Log the trouble and return it as a problem with 503; None for an error in the code."""
    why = reason(error)
    if not why:
        return None
    _log(why, error)
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return Problem(503, why, fix="Nothing is lost. Try again later.", headers=headers)


def _log(why: str, error: BaseException | None) -> None:
    now = time.monotonic()
    if now - _logged_at.get(why, -math.inf) >= LOGGED_EVERY_SECONDS:
        _logged_at[why] = now
        logger.error(why, extra={"error": f"{type(error).__name__}: {error}"[:500]})

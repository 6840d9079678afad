"""The body of an upload: what its headers may say, and its decoding."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from django.http import HttpRequest
from django.http.request import UnreadablePostError
from trimtab.wire import LIMITS, TooLargeError, WireError

from webapp.http.problems import Problem

SEGMENT_TYPE = "application/vnd.trimtab.segment+json"
DECLARATION_TYPE = "application/vnd.trimtab.declaration+json"
TYPES = (SEGMENT_TYPE, DECLARATION_TYPE, "application/json", "application/octet-stream", "")
ENCODINGS = ("gzip", "x-gzip", "")
"""The bytes say it as well, so both headers may be left out."""
_KINDS = {"body": "unreadable-body", "version": "unsupported-version"}

Decoded = TypeVar("Decoded")
# Decoding is bound by the interpreter's lock anyway; one at a time, its memory is needed once.
_one_at_a_time = threading.Lock()


def decoded(decode: Callable[[bytes], Decoded], request: HttpRequest) -> Decoded:
    """What an upload carries.

    Raises:
        Problem: 400, 411, 413 or 415, naming the field or header.
    """
    check_length(request, LIMITS.body_bytes, "Send smaller segments.")
    _check_kind(request)
    body = _read(request)
    try:
        with _one_at_a_time:
            return decode(body)
    except WireError as error:
        raise _refused(error) from None


def _refused(error: WireError) -> Problem:
    """A body that can't be read at all may have been changed on its way; its fields weren't."""
    if isinstance(error, TooLargeError):
        return Problem(413, error.problem, error.field, error.fix)
    kind = _KINDS.get(error.field, "invalid-upload")
    return Problem(400, error.problem, error.field, error.fix, kind=kind)


def cut_off() -> Problem:
    fix = "Send the whole body."
    return Problem(400, "The body ended early.", "body", fix, kind="unreadable-body")


def check_length(request: HttpRequest, most_bytes: int, smaller: str) -> None:
    """Before a byte of the body is read. Raises Problem 400, 411 or 413; `smaller` is its fix."""
    length = request.META.get("CONTENT_LENGTH") or ""
    if not length and request.META.get("HTTP_TRANSFER_ENCODING"):
        detail, fix = (
            "Chunked bodies are not accepted: the length is missing.",
            "Send the body with a Content-Length.",
        )
        raise Problem(411, detail, "Content-Length", fix)
    if length and not (length.isascii() and length.isdecimal()):
        fix = "Send the number of bytes."
        raise Problem(400, "Not a whole number.", "Content-Length", fix)
    if len(length) > 18 or int(length or 0) > most_bytes:
        raise Problem(413, f"Over {most_bytes} bytes.", "body", smaller)


def _check_kind(request: HttpRequest) -> None:
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ENCODINGS:
        detail, fix = "Only gzip is supported.", "Compress the JSON with gzip."
        raise Problem(415, detail, "Content-Encoding", fix)
    if (request.content_type or "").lower() not in TYPES:
        detail = "Only segments and declarations are accepted."
        raise Problem(415, detail, "Content-Type", f"Send {SEGMENT_TYPE} or {DECLARATION_TYPE}.")


def _read(request: HttpRequest) -> bytes:
    try:
        return request.body
    except UnreadablePostError:
        raise cut_off() from None

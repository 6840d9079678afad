"""The body of an upload: what its headers may say, and its decoding."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from django.http import HttpRequest
from django.http.request import UnreadablePostError
from trimtab.wire import LIMITS, TooLargeError, WireError

from webapp.http.problems import Problem

SEGMENT_TYPE = "application/vnd.trimtab.segment+json"
DECLARATION_TYPE = "application/vnd.trimtab.declaration+json"
SEGMENTS_TYPE = "application/vnd.trimtab.segments"
_UNNAMED = ("application/octet-stream", "")
_KINDS = {"body": "unreadable-body", "version": "unsupported-version"}

Headers = Mapping[str, str]
"""Names are in lower case, or in any."""
Decoded = TypeVar("Decoded")
# Decoding is bound by the interpreter's lock anyway; one at a time, its memory is needed once.
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Form:
    """Allowed headers of a body; both may be left out."""

    types: tuple[str, ...]
    type_fix: str
    encodings: tuple[str, ...]
    encoding_problem: str
    encoding_fix: str


SINGLE = Form(
    types=(SEGMENT_TYPE, DECLARATION_TYPE, "application/json", *_UNNAMED),
    type_fix=f"Send {SEGMENT_TYPE} or {DECLARATION_TYPE}.",
    encodings=("gzip", "x-gzip", ""),
    encoding_problem="Only gzip is supported.",
    encoding_fix="Compress the JSON with gzip.",
)
SEVERAL = Form(
    types=(SEGMENTS_TYPE, *_UNNAMED),
    type_fix=f"Send {SEGMENTS_TYPE}.",
    encodings=("identity", ""),
    encoding_problem="Each of the segments is compressed; together they aren't.",
    encoding_fix="Leave the header out.",
)


def decode_request(
    decode: Callable[[bytes], Decoded], request: HttpRequest, form: Form = SINGLE
) -> Decoded:
    """Read and decode an upload.

    Raises:
        Problem: 400, 411, 413 or 415, naming the field or header.
    """
    check_headers(request.headers, form)
    return decode_body(decode, read_body(request))


def check_headers(headers: Headers, form: Form = SINGLE) -> None:
    """Check the headers before any of the body is read.

    Raises:
        Problem: 400, 411, 413 or 415, naming the header.
    """
    check_length(headers, LIMITS.body_bytes, "Send smaller segments.")
    _check_form(headers, form)


def decode_body(decode: Callable[[bytes], Decoded], body: bytes) -> Decoded:
    """Decode a body. Raises Problem 400 or 413."""
    try:
        with _one_at_a_time:
            return decode(body)
    except WireError as error:
        raise _refused(error) from None


def _refused(error: WireError) -> Problem:
    """Describe why a body was refused. If none of it can be read, it may have been changed on its
    way; otherwise its fields are wrong.
    """
    if isinstance(error, TooLargeError):
        return Problem(413, error.problem, error.field, error.fix)
    kind = _KINDS.get(error.field, "invalid-upload")
    return Problem(400, error.problem, error.field, error.fix, kind=kind)


def body_cut_off() -> Problem:
    fix = "Send the whole body."
    return Problem(400, "The body ended early.", "body", fix, kind="unreadable-body")


def check_length(headers: Headers, most_bytes: int, smaller: str) -> None:
    """Check the length before any of the body is read. Raises Problem 400, 411 or 413; `smaller` is
    its fix.
    """
    length = headers.get("content-length") or ""
    if not length and headers.get("transfer-encoding"):
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


def _check_form(headers: Headers, form: Form) -> None:
    encoding = (headers.get("content-encoding") or "").strip().lower()
    if encoding not in form.encodings:
        raise Problem(415, form.encoding_problem, "Content-Encoding", form.encoding_fix)
    named, _, _ = (headers.get("content-type") or "").partition(";")
    if named.strip().lower() not in form.types:
        detail = "Only segments and declarations are accepted."
        raise Problem(415, detail, "Content-Type", form.type_fix)


def read_body(request: HttpRequest) -> bytes:
    """Read the body. Raises Problem 400."""
    try:
        return request.body
    except UnreadablePostError:
        raise body_cut_off() from None


def check_match(field: str, in_url: object, in_body: object) -> None:
    """Compare a field with the URL. Raises Problem 400."""
    if in_url != in_body:
        detail = f"The body says {in_body}, the URL {in_url}."
        fix = "Send the same value in both."
        raise Problem(400, detail, field, fix, kind="invalid-upload")

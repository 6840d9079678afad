"""A WSGI application, called with whole requests; its answers are whole as well."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from tempfile import TemporaryFile
from typing import IO, Any
from urllib.parse import unquote_to_bytes, urlsplit
from wsgiref.types import WSGIApplication
from wsgiref.util import FileWrapper

from django.conf import settings
from django.http import HttpResponse

from webapp.web_server.stream import RequestHead

WITHOUT_CONTENT = (204, 304)
PIECE_BYTES = 64 * 1024
"""The most of a body or an answer that is read, sent, and kept in memory at once; the rest is on
disk."""


@dataclass
class HttpAnswer:
    status: int
    reason: str
    headers: list[tuple[str, str]]
    first: bytes
    """The first piece of the content."""
    rest: IO[bytes] | None = None
    """The remaining content. Reading it may take long if `is_foreign`."""
    is_foreign: bool = False

    @property
    def has_an_end(self) -> bool:
        """True if a client can see where the answer ends before the connection closes."""
        has_length = any(name.lower() == "content-length" for name, _ in self.headers)
        return has_length or self.status in WITHOUT_CONTENT


def to_answer(said: HttpResponse) -> HttpAnswer:
    """Return an answer of ours that doesn't come from the application."""
    headers = [*said.items(), ("Content-Length", str(len(said.content)))]
    return HttpAnswer(said.status_code, said.reason_phrase, headers, said.content)


def append_piece(kept: IO[bytes], piece: bytes) -> IO[bytes]:
    """Return a body or an answer with one more piece: in memory, or once it is long, in a file."""
    if isinstance(kept, io.BytesIO) and kept.tell() + len(piece) > PIECE_BYTES:
        in_memory, kept = kept, TemporaryFile(dir=settings.SCRATCH_DIR)  # noqa: SIM115
        kept.write(in_memory.getbuffer())
    kept.write(piece)
    return kept


def make_environ(
    head: RequestHead,
    peer: str,
    server: tuple[str, str],
    body: IO[bytes],
) -> dict[str, Any]:
    """Return the request's WSGI environment (PEP 3333)."""
    path, query = _path_and_query(head.target)
    environ = {
        "REQUEST_METHOD": head.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_PROTOCOL": head.version,
        "SERVER_NAME": server[0],
        "SERVER_PORT": server[1],
        "REMOTE_ADDR": peer,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": body,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": FileWrapper,
    }
    return environ | _header_variables(head.headers)


def _path_and_query(target: str) -> tuple[str, str]:
    """Split a request's target: `/path?query`, or the same with scheme and host in front."""
    if not target.startswith("/"):
        parts = urlsplit(target)
        return parts.path or "/", parts.query
    path, _, query = target.partition("?")
    return path, query


def _header_variables(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers as variables. Names with underscores are left out: as variables they would
    pass for others, and a proxy that sets `X-Forwarded-For` doesn't know `X_Forwarded_For`.
    """
    variables: dict[str, str] = {}
    for name, value in headers.items():
        if "_" in name:
            continue
        variable = name.upper().replace("-", "_")
        if variable not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            variable = f"HTTP_{variable}"
        variables[variable] = value
    return variables


def call_application(application: WSGIApplication, environ: dict[str, Any]) -> HttpAnswer:
    """Call the application, and take all of its answer. Runs in a thread."""
    status, headers = "", []
    written: list[bytes] = []

    def start_response(line: str, fields: list[tuple[str, str]], _error: object = None) -> Any:
        nonlocal status, headers
        status, headers = line, fields
        return written.append  # PEP 3333's `write`: comes before the content

    content = application(environ, start_response)
    code, _, reason = status.partition(" ")
    if isinstance(content, FileWrapper):
        return _of_file(HttpAnswer(int(code), reason, headers, b""), content)
    return _of_parts(HttpAnswer(int(code), reason, headers, b""), written, content)


def _of_file(answer: HttpAnswer, content: FileWrapper) -> HttpAnswer:
    """Take a file's answer. Files can be long, so they are read while they are sent."""
    file = content.filelike
    answer.first = file.read(PIECE_BYTES)
    if len(answer.first) < PIECE_BYTES:
        file.close()
        return answer
    answer.rest, answer.is_foreign = file, True
    return answer


def _of_parts(answer: HttpAnswer, written: list[bytes], content: Iterable[bytes]) -> HttpAnswer:
    kept: IO[bytes] = io.BytesIO()
    try:
        for part in chain(written, content):
            kept = append_piece(kept, part)
    finally:
        if hasattr(content, "close"):
            content.close()
    length = kept.tell()
    kept.seek(io.SEEK_SET)
    answer.first = kept.read(PIECE_BYTES)
    if length > PIECE_BYTES:
        answer.rest = kept
    if not answer.has_an_end:
        answer.headers = [*answer.headers, ("Content-Length", str(length))]
    return answer

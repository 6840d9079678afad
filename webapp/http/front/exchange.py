"""One request and its answer."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
import time
from functools import lru_cache
from typing import IO, TYPE_CHECKING, cast

from tornado.http1connection import HTTP1Connection
from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
    format_timestamp,
)

from webapp.http.client_address import UNKNOWN, address_of, network
from webapp.http.front.application import Answer, appended, environ_of, whole
from webapp.http.front.connections import Connection
from webapp.http.problems import Problem

if TYPE_CHECKING:
    from webapp.http.front.server import Front

MOST_BODY_BYTES = 64 * 1024 * 1024
"""Of any request; the application has lower limits for most."""
MOST_DISCARDED_BYTES = 8 * 1024 * 1024
"""Of a body that nobody reads: a client that is cut off while it sends doesn't see the answer."""
WITHOUT_CONTENT = (204, 304)
CHUNKED_PATHS = "/api/2.0/mlflow-artifacts/"
"""MLflow's clients send an empty file in chunks. Elsewhere a body says its length."""

logger = logging.getLogger(__name__)
access_logger = logging.getLogger("trimtab.access")

BUSY = Problem(
    503,
    "Too many requests at a time from this IP address.",
    fix="Try again in a few seconds.",
    headers={"Retry-After": "5"},
)
FULL = Problem(
    503,
    "Too many uploads at a time.",
    fix="Try again in a few seconds.",
    headers={"Retry-After": "5"},
)
NO_SPACE = Problem(
    503,
    "The service can't write to its disk at present.",
    fix="Nothing is lost. Try again later.",
    headers={"Retry-After": "30"},
)
SLOW = Problem(408, "The body arrived too slowly.", "body", "Send it again.")


class Exchange(HTTPMessageDelegate):
    """Begins while its connection waits for a request, and ends with the answer."""

    def __init__(self, front: Front, http: HTTP1Connection) -> None:
        self._front, self._http = front, http
        self.connection = cast("Connection", http.context)
        self.connection.end = self.end
        self._body: IO[bytes] = io.BytesIO()
        self._discarded_bytes = 0
        self._is_unread, self._is_refused = False, False
        self._is_received = asyncio.Event()
        self._began_at = time.monotonic()

    # Receiving

    def headers_received(  # type: ignore[override]
        self, line: RequestStartLine, headers: HTTPHeaders
    ) -> None:
        self._line, self._headers = line, headers
        self._began_at = time.monotonic()
        self.connection.requests += 1
        self.connection.move()
        if not self._claim():
            self.refuse(BUSY)
        elif self._nobody_reads_the_body():
            # The application knows how to say so; it asks for the length before the body.
            self._is_unread = True
            self._http.set_max_body_size(sys.maxsize)
            self._front.spawn(self._answer(), self.connection)
        else:
            self._http.set_max_body_size(MOST_BODY_BYTES)

    def _claim(self) -> bool:
        """Behind proxies only a request says whose it is; its connection is the proxy's."""
        if not self._front.is_behind_proxies:
            return True
        return self._front.connections.claim(self.connection, network(self._address()))

    def _address(self) -> str:
        forwarded = self._headers.get("X-Forwarded-For", "")
        return address_of(self.connection.peer or UNKNOWN, forwarded)

    def _nobody_reads_the_body(self) -> bool:
        length = self._headers.get("Content-Length", "").partition(",")[0]
        is_number = length.isascii() and length.isdecimal()
        is_too_long = is_number and (len(length) > 18 or int(length) > MOST_BODY_BYTES)
        is_chunked = "Transfer-Encoding" in self._headers
        return is_too_long or (is_chunked and not self._line.path.startswith(CHUNKED_PATHS))

    def data_received(self, chunk: bytes) -> None:
        self.connection.moved(len(chunk))
        if self._is_unread or self._is_refused:
            self._discarded_bytes += len(chunk)
            if self._discarded_bytes > MOST_DISCARDED_BYTES:
                self.connection.stream.close()
        elif self._front.connections.hold(self.connection, len(chunk)):
            self._keep(chunk)
        else:
            self.refuse(FULL)

    def _keep(self, chunk: bytes) -> None:
        try:
            self._body = appended(self._body, chunk)
        except OSError as error:
            logger.warning("a body can't be kept", extra={"error": str(error)})
            self.refuse(NO_SPACE)

    def finish(self) -> None:
        self._is_received.set()
        if not self._is_unread and not self._is_refused:
            self._body.seek(io.SEEK_SET)
            self._front.spawn(self._answer(), self.connection)

    def on_connection_close(self) -> None:
        """While the request arrives."""
        self._is_received.set()
        self._body.close()

    # Answering

    def refuse(self, problem: Problem) -> None:
        """Without the application, and without the rest of the body."""
        self._is_refused = True
        self._body.close()
        self._front.connections.release(self.connection)
        self._front.spawn(self._deliver(whole(problem.response())), self.connection)

    def end(self) -> None:
        """Its connection is too slow."""
        if self.connection.is_waiting or self._is_received.is_set() or self._is_refused:
            self.connection.stream.close()
        else:
            self._is_received.set()
            self.refuse(SLOW)

    async def _answer(self) -> None:
        self.connection.work()
        if "Transfer-Encoding" in self._headers and not self._is_unread:
            del self._headers["Transfer-Encoding"]
            self._headers["Content-Length"] = str(self._body.seek(0, io.SEEK_END))
            self._body.seek(io.SEEK_SET)
        environ = environ_of(
            self._line, self._headers, self.connection.peer, self._front.name, self._body
        )
        answer = await self._front.answered(environ)
        self._body.close()
        self._front.connections.release(self.connection)
        self.connection.move()
        await self._deliver(answer)

    async def _deliver(self, answer: Answer) -> None:
        """Send it and be done: after that, the connection belongs to the next request."""
        ends = self._is_unread or self._is_refused
        try:
            await self._send(answer, ends)
        finally:
            if answer.rest is not None:
                await self._front.in_file_thread(answer.rest.close)
        self._log(answer)
        if ends:
            await self._is_received.wait()
        if self._is_gone:
            return
        if self._front.is_behind_proxies:
            self._front.connections.unclaim(self.connection)
        self._http.finish()
        if ends:
            self.connection.stream.close()
        self.connection.wait()

    async def _send(self, answer: Answer, ends: bool) -> None:
        line = ResponseStartLine("HTTP/1.1", answer.status, answer.reason)
        has_content = self._line.method != "HEAD" and answer.status not in WITHOUT_CONTENT
        chunk = answer.first if has_content else b""
        await self._http.write_headers(line, _headers_of(answer, ends), chunk)
        while has_content and not self._is_gone:
            self.connection.moved(len(chunk))
            chunk = await self._front.read(answer)
            if not chunk:
                break
            await self._http.write(chunk)

    @property
    def _is_gone(self) -> bool:
        return self.connection.stream.closed()

    def _log(self, answer: Answer) -> None:
        """Without the query, which may hold names."""
        if not access_logger.isEnabledFor(logging.INFO):
            return
        facts = {
            "method": self._line.method,
            "path": self._line.path.partition("?")[0],
            "status": answer.status,
            "seconds": round(time.monotonic() - self._began_at, 4),
            "address": self._address(),
        }
        access_logger.info("request", extra=facts)


def _headers_of(answer: Answer, ends: bool) -> HTTPHeaders:
    headers = HTTPHeaders()
    for name, value in answer.headers:
        if not (answer.status == 204 and name.lower() == "content-length"):
            # Django's cookies begin with a blank.
            headers.add(name, value.strip())
    headers.setdefault("Date", _date(int(time.time())))
    if ends:
        headers["Connection"] = "close"
    return headers


@lru_cache(1)
def _date(now_seconds: int) -> str:
    return format_timestamp(now_seconds)

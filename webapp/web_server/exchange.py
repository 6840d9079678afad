"""One request and its answer."""

from __future__ import annotations

import asyncio
import io
import logging
import re
import time
from email.utils import formatdate
from functools import lru_cache
from typing import IO, Any

from webapp.http.addresses import UNKNOWN, find_client_address, to_network
from webapp.http.gathered import WholeRequest
from webapp.http.problems import Problem
from webapp.web_server.answering import Answering
from webapp.web_server.application import (
    WITHOUT_CONTENT,
    HttpAnswer,
    append_piece,
    make_environ,
    to_answer,
)
from webapp.web_server.connections import Connection, Connections
from webapp.web_server.stream import RequestHead

MOST_BODY_BYTES = 64 * 1024 * 1024
"""The largest body of any request; the application has lower limits for most."""
MOST_DISCARDED_BYTES = 8 * 1024 * 1024
"""The most bytes that are read and discarded of a body that nobody needs: a client that is cut off
while it sends doesn't see the answer."""
NOT_IN_LINES = re.compile(r"[\r\n\0]")
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
TOO_LONG = Problem(413, f"Over {MOST_BODY_BYTES} bytes.", "body", "Send less at once.")
SLOW = Problem(408, "The body arrived too slowly.", "body", "Send it again.")


class Exchange:
    """Begins with the head of a request, and ends with the answer."""

    def __init__(
        self,
        answering: Answering,
        connections: Connections,
        connection: Connection,
        head: RequestHead,
    ) -> None:
        self._answering, self._connections = answering, connections
        self.connection, self._head = connection, head
        self.connection.end = self.end
        self._body: IO[bytes] = io.BytesIO()
        self._body_bytes = self._discarded_bytes = 0
        self._is_unread, self._is_refused = False, False
        self._is_received = asyncio.Event()
        self._began_at = time.monotonic()

    # Receiving

    def head_received(self) -> None:
        self.connection.requests += 1
        self.connection.move()
        if not self._claim():
            self.refuse(BUSY)
        elif self._nobody_reads_the_body():
            # The application knows how to say so; it asks for the length before the body.
            self._is_unread = True
            self._answering.spawn(self._answer(), self.connection)
        elif (self._head.headers.get("expect") or "").lower() == "100-continue":
            self.connection.stream.go_on()

    def _claim(self) -> bool:
        """Count the connection for the request's client."""
        if not self._connections.is_behind_proxies:
            return True
        return self._connections.claim(self.connection, to_network(self._address()))

    def _address(self) -> str:
        forwarded = self._head.headers.get("x-forwarded-for") or ""
        return find_client_address(self.connection.peer or UNKNOWN, forwarded)

    def _nobody_reads_the_body(self) -> bool:
        if self._is_chunked:
            return not self._head.target.startswith(CHUNKED_PATHS)
        return int(self._head.headers.get("content-length") or 0) > MOST_BODY_BYTES

    @property
    def _is_chunked(self) -> bool:
        return "transfer-encoding" in self._head.headers

    def data_received(self, chunk: bytes) -> None:
        self.connection.count_moved(len(chunk))
        if self.is_answered_early:
            self._discarded_bytes += len(chunk)
            if self._discarded_bytes > MOST_DISCARDED_BYTES:
                self.connection.stream.close()
            return
        self._body_bytes += len(chunk)
        if self._body_bytes > MOST_BODY_BYTES:  # only a body in chunks gets here
            self.refuse(TOO_LONG)
        elif self._connections.hold(self.connection, len(chunk)):
            self._keep(chunk)
        else:
            self.refuse(FULL)

    def _keep(self, chunk: bytes) -> None:
        try:
            self._body = append_piece(self._body, chunk)
        except OSError as error:
            logger.warning("a body can't be kept", extra={"error": str(error)})
            self.refuse(NO_SPACE)

    def finish(self) -> None:
        self._is_received.set()
        if not self.is_answered_early:
            self._body.seek(io.SEEK_SET)
            self._answering.spawn(self._answer(), self.connection)

    @property
    def is_answered_early(self) -> bool:
        """True if the request is answered without its body, which is discarded."""
        return self._is_unread or self._is_refused

    def is_cut_short(self) -> None:
        """Note that nothing useful follows in the body, so the answer needn't wait for the rest."""
        self._is_received.set()

    def on_connection_close(self) -> None:
        """End the exchange, because the connection closed while the request was arriving."""
        self._is_received.set()
        self._body.close()

    # Answering

    def refuse(self, problem: Problem) -> None:
        """Refuse the request without the application and without the rest of the body."""
        self._is_refused = True
        self._body.close()
        self._connections.release(self.connection)
        self._answering.spawn(self._deliver(to_answer(problem.response())), self.connection)

    def end(self) -> None:
        """End the exchange, because its connection is too slow."""
        if self.connection.is_waiting or self._is_received.is_set() or self._is_refused:
            self.connection.stream.close()
        else:
            self._is_received.set()
            self.refuse(SLOW)

    async def _answer(self) -> None:
        self.connection.work()
        if self._answering.gathering.takes(self._head):
            asked = WholeRequest(
                self._head.target, self._head.headers, self._body.read(), self._address()
            )
            answer = await self._answering.answer_gathered(asked)
        else:
            answer = await self._answering.answer_request(self._environ())
        self._body.close()
        self._connections.release(self.connection)
        self.connection.move()
        await self._deliver(answer)

    def _environ(self) -> dict[str, Any]:
        environ = make_environ(self._head, self.connection.peer, self._answering.name, self._body)
        if self._is_chunked and not self._is_unread:
            del environ["HTTP_TRANSFER_ENCODING"]
            environ["CONTENT_LENGTH"] = str(self._body_bytes)
        return environ

    async def _deliver(self, answer: HttpAnswer) -> None:
        """Send the answer. After that, the connection belongs to the next request."""
        is_cut_off = self.is_answered_early
        is_kept = self._head.is_kept and answer.has_an_end and not self._connections.is_ending
        is_last = is_cut_off or not is_kept
        try:
            await self._send(answer, is_last)
        finally:
            if answer.rest is not None:
                await self._answering.in_file_thread(answer.rest.close)
        self._log(answer)
        if is_cut_off:
            await self._is_received.wait()
        if self.connection.stream.is_gone:
            return
        if is_last:
            self.connection.stream.close()
            return
        if self._connections.is_behind_proxies:
            self._connections.unclaim(self.connection)
        self.connection.wait()
        self.connection.stream.done()

    async def _send(self, answer: HttpAnswer, is_last: bool) -> None:
        stream = self.connection.stream
        has_content = self._head.method != "HEAD" and answer.status not in WITHOUT_CONTENT
        chunk = answer.first if has_content else b""
        await stream.send(self._head_of(answer, is_last) + chunk)
        while has_content and answer.rest is not None:
            self.connection.count_moved(len(chunk))
            chunk = await self._answering.read(answer)
            if not chunk:
                break
            await stream.send(chunk)

    def _head_of(self, answer: HttpAnswer, is_last: bool) -> bytes:
        lines, is_dated = [f"HTTP/1.1 {answer.status} {answer.reason}"], False
        for name, value in answer.headers:
            known = name.lower()
            if answer.status == 204 and known == "content-length":
                continue
            is_dated = is_dated or known == "date"
            lines.append(f"{name}: {value.strip()}")  # Django's cookies begin with a blank
        if not is_dated:
            lines.append(f"Date: {_date(int(time.time()))}")
        if is_last:
            lines.append("Connection: close")
        elif self._head.version == "HTTP/1.0":
            lines.append("Connection: keep-alive")
        if NOT_IN_LINES.search("".join(lines)):
            raise ValueError("a header of the answer has more than one line")
        return "\r\n".join([*lines, "\r\n"]).encode("latin-1")

    def _log(self, answer: HttpAnswer) -> None:
        """Log the request without its query, which may hold names."""
        if not access_logger.isEnabledFor(logging.INFO):
            return
        facts = {
            "method": self._head.method,
            "path": self._head.target.partition("?")[0],
            "status": answer.status,
            "seconds": round(time.monotonic() - self._began_at, 4),
            "address": self._address(),
        }
        access_logger.info("request", extra=facts)


@lru_cache(1)
def _date(now_seconds: int) -> str:
    return formatdate(now_seconds, usegmt=True)

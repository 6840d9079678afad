"""The bytes of one connection: into requests, one after the other, and out again.

llhttp (httptools) parses. It refuses what servers and proxies are known to read differently: two
lengths, a length beside chunks, folded headers, a blank before a colon, lines without CR.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpRequestParser,
)

if TYPE_CHECKING:
    from webapp.http.front.exchange import Exchange
    from webapp.http.front.server import Front

MOST_HEAD_BYTES = 64 * 1024
VERSIONS = ("1.0", "1.1")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
MALFORMED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

logger = logging.getLogger(__name__)


class GoneError(ConnectionError):
    """The client has left."""


@dataclass(frozen=True)
class Head:
    method: str
    target: str
    version: str
    headers: list[tuple[str, str]]
    """Names in lower case, in their order."""
    is_kept: bool
    """The connection stays open for another request."""

    def get(self, name: str) -> str | None:
        """All values of a header, joined."""
        values = [value for each, value in self.headers if each == name]
        return ",".join(values) if values else None


@dataclass(frozen=True)
class _Malformed:
    why: str


_END = None
_Event = Head | bytes | _Malformed | None
"""What was parsed: a head, a piece of a body, the end of a request, or nonsense."""


class Stream(asyncio.Protocol):
    """Parses what comes, and hands it to the request's exchange. What a client sends before it has
    its answer waits, and nothing more is read meanwhile."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._parser = HttpRequestParser(self)
        self._events: deque[_Event] = deque()
        self._exchange: Exchange | None = None
        self._is_received = False
        """All of the exchange's request is here."""
        self._is_deaf = False
        """Whatever comes belongs to no request."""
        self._raw_bytes = 0
        """So much of a body comes after a head that asked for another protocol: llhttp leaves it
        unparsed."""
        self._head_bytes = 0
        self._is_paused = False
        self._drained = asyncio.Event()
        self._drained.set()

    # Of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # Writing is paused as long as the kernel hasn't taken all.
        self._transport.set_write_buffer_limits(0)
        self.connection = self._front.connected(self, self._transport)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        if self._raw_bytes:
            self._raw_received(data)
        else:
            self._parse(data)
        self._advance()

    def eof_received(self) -> None:
        """Who ends the sending side is gone."""

    def connection_lost(self, _: Exception | None) -> None:
        self._is_deaf = True
        del self._parser  # It holds this
        self._drained.set()
        if self._exchange is not None and not self._is_received:
            self._exchange.on_connection_close()
        self._front.disconnected(self.connection)

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    # Parsing

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as ended:
            self._raw_received(data[ended.args[0] :])
        except HttpParserCallbackError:
            raise
        except HttpParserError as error:
            self._is_malformed(str(error))
        else:
            if self._head_bytes:
                self._head_bytes += len(data)
                self._bound_head()

    def _is_malformed(self, why: str) -> None:
        if not self._is_deaf:
            self._is_deaf = True
            self._events.append(_Malformed(why))

    def _bound_head(self) -> None:
        if self._head_bytes > MOST_HEAD_BYTES:
            self._is_malformed("the head is too long")

    def _raw_received(self, data: bytes) -> None:
        if self._raw_bytes:
            piece = data[: self._raw_bytes]
            self._raw_bytes -= len(piece)
            self._events.append(piece)
        if not self._raw_bytes and not self._is_deaf:
            self._is_deaf = True
            self._events.append(_END)

    def on_message_begin(self) -> None:
        self._target = ""
        self._headers: list[tuple[str, str]] = []
        self._head_bytes = 1

    def on_url(self, part: bytes) -> None:
        self._target += part.decode("latin-1")
        self._head_bytes += len(part)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Those after a body in chunks are left out."""
        if self._head_bytes:
            text = value.strip(b" \t").decode("latin-1")
            self._headers.append((name.decode("latin-1").lower(), text))
            self._head_bytes += len(name) + len(value)

    def on_headers_complete(self) -> None:
        self._bound_head()
        self._head_bytes = 0
        parser = self._parser
        is_upgrade = parser.should_upgrade()
        head = Head(
            parser.get_method().decode(),
            self._target,
            f"HTTP/{parser.get_http_version()}",
            self._headers,
            parser.should_keep_alive() and not is_upgrade,
        )
        if why := _faults(head, parser.get_http_version(), is_upgrade):
            self._is_malformed(why)
        if self._is_deaf:
            return
        self._head = head
        self._raw_bytes = int(head.get("content-length") or 0) if is_upgrade else 0
        self._events.append(head)

    def on_body(self, piece: bytes) -> None:
        if not self._is_deaf:
            self._events.append(piece)

    def on_message_complete(self) -> None:
        if self._is_deaf or self._parser.should_upgrade():
            return
        self._events.append(_END)
        self._is_deaf = not self._head.is_kept

    # Exchanges

    def _advance(self) -> None:
        """Hand on what was parsed, as far as the request goes that is under way."""
        while self._events and not (self._exchange is not None and self._is_received):
            self._hand_on(self._events.popleft())
        if self._is_paused != bool(self._events) and not self._transport.is_closing():
            self._is_paused = not self._is_paused
            if self._is_paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _hand_on(self, event: _Event) -> None:
        if isinstance(event, _Malformed):
            self._refuse(event.why)
        elif isinstance(event, Head):
            self._is_received = False
            self._exchange = self._front.begun(self, event)
            self._exchange.head_received()
        elif self._exchange is not None:
            if event is _END:
                self._is_received = True
                self._exchange.finish()
            else:
                self._exchange.data_received(event)

    def _refuse(self, why: str) -> None:
        logger.debug("malformed request", extra={"why": why})
        if self._exchange is not None:
            self._exchange.on_connection_close()
            self._exchange = None
        self._transport.write(MALFORMED)
        self._transport.close()

    def done(self) -> None:
        """The request is answered: the next one may begin."""
        self._exchange = None
        self._advance()

    # Answers

    @property
    def is_gone(self) -> bool:
        return self._transport.is_closing()

    async def send(self, data: bytes) -> None:
        """Returns once the kernel has taken it. Raises GoneError."""
        if self.is_gone:
            raise GoneError
        self._transport.write(data)
        if not self._drained.is_set():
            await self._drained.wait()
            if self.is_gone:
                raise GoneError

    def go_on(self) -> None:
        """Ask the client for the body that it holds back."""
        self._transport.write(CONTINUE)

    def end(self, last: bytes) -> None:
        """Send this and close."""
        self._is_deaf = True
        self._transport.write(last)
        self._transport.close()

    def close(self) -> None:
        """At once, whatever is on its way."""
        self._is_deaf = True
        self._transport.abort()


def _faults(head: Head, version: str, is_upgrade: bool) -> str:
    """What llhttp takes and this server doesn't; empty: nothing."""
    if version not in VERSIONS:
        return f"HTTP {version}"
    coding = head.get("transfer-encoding")
    if coding is None:
        return ""
    if version == "1.0" or is_upgrade or coding.lower() != "chunked":
        return f"a body that is {coding} in HTTP {version}"
    return ""

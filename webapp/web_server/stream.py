"""Turns the bytes of one connection into requests, one after the other, and sends the answers.

llhttp (httptools) parses. It refuses what servers and proxies are known to read differently: two
lengths, a length beside chunks, folded headers, a blank before a colon, lines without CR. It takes
its input in any pieces: where they are cut here bounds memory, and decides nothing about meaning.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import Protocol, cast
from urllib.parse import urlsplit

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpRequestParser,
)

MOST_HEAD_BYTES = 64 * 1024
"""The largest head; also the most bytes around a body in chunks, from one chunk to the next."""
CHUNKED_PIECE_BYTES = 4096
HEAD_END = b"\r\n\r\n"
VERSIONS = ("1.0", "1.1")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
MALFORMED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

logger = logging.getLogger(__name__)


class GoneError(ConnectionError):
    """Raised when the client has left."""


@dataclass(frozen=True)
class RequestHead:
    method: str
    target: str
    version: str
    headers: dict[str, str]
    """Headers by their names in lower case; the values of a repeated one are joined."""
    is_kept: bool
    """True if the connection stays open for another request."""


@dataclass(frozen=True)
class _Malformed:
    why: str


class Receiver(Protocol):
    """Receiver of one request from its stream."""

    @property
    def is_answered_early(self) -> bool:
        """True if the request is answered without its body, which is discarded."""

    def head_received(self) -> None: ...

    def data_received(self, chunk: bytes) -> None: ...

    def finish(self) -> None:
        """Note that all of the request is here."""

    def is_cut_short(self) -> None:
        """Note that nothing useful follows in the body, so the answer needn't wait for the rest."""

    def on_connection_close(self) -> None:
        """End, because the connection closed while the request was arriving."""


class StreamOwner(Protocol):
    """Owner of streams, with a receiver for each of their requests."""

    def open_connection(self, stream: Stream, transport: asyncio.Transport) -> None: ...

    def begin_exchange(self, stream: Stream, head: RequestHead) -> Receiver: ...

    def remove_connection(self, stream: Stream) -> None: ...


_END = None
_Event = RequestHead | bytes | _Malformed | None
"""One parsed item: a head, a piece of a body, the end of a request, or nonsense."""


class Stream(asyncio.Protocol):
    """Parses what comes, and hands it to the request's exchange. What a client sends before it has
    its answer waits unparsed, and nothing more is read meanwhile: as objects, requests take thirty
    times as much memory as their bytes."""

    def __init__(self, owner: StreamOwner) -> None:
        self._owner = owner
        self._parser = HttpRequestParser(self)
        self._ahead, self._at = b"", 0
        """The bytes that were read, and how far they are parsed."""
        self._events: deque[_Event] = deque()
        self._exchange: Receiver | None = None
        self._is_received = False
        """True once all of the exchange's request is here."""
        self._is_deaf = False
        """True once further input belongs to no request."""
        self._is_in_body = False
        self._is_raw = False
        """True if the head asked for another protocol: llhttp then leaves the body to us."""
        self._left_bytes = 0
        """The bytes still missing of a body that has a length."""
        self._fruitless_bytes = 0
        """The bytes since there was a head or a piece of a body. llhttp counts nothing, and
        httptools keeps what it has of a line."""
        self._is_paused = False
        self._drained = asyncio.Event()
        self._drained.set()

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # Writing is paused as long as the kernel hasn't taken all.
        self._transport.set_write_buffer_limits(0)
        self._owner.open_connection(self, self._transport)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        self._ahead, self._at = self._ahead[self._at :] + data, 0
        self._advance()

    def eof_received(self) -> None:
        """Treat a client that closes its sending side as disconnected."""

    def connection_lost(self, _: Exception | None) -> None:
        self._is_deaf = True
        del self._parser  # the exchange holds this stream
        self._drained.set()
        if self._exchange is not None and not self._is_received:
            self._exchange.on_connection_close()
        self._owner.remove_connection(self)

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    # Parsing

    def _next_piece(self) -> bytes:
        """Return the next input, which ends at the latest with a head or a body, so that nothing is
        parsed ahead of its turn. Bodies in chunks don't say where they end: a small piece.
        """
        start, whole = self._at, self._ahead
        if self._is_in_body:
            end = start + (self._left_bytes or CHUNKED_PIECE_BYTES)
        else:
            found = whole.find(HEAD_END, start)
            end = len(whole) if found < 0 else found + len(HEAD_END)
        self._at = min(end, len(whole))
        return whole[start : self._at]

    def _parse(self, piece: bytes) -> None:
        if not self._left_bytes:
            self._fruitless_bytes += len(piece)
        if self._fruitless_bytes > MOST_HEAD_BYTES:
            self._is_malformed("too long a head, or too much around a chunk")
        elif self._is_raw:
            self._raw_received(piece)
        else:
            self._feed(piece)

    def _feed(self, piece: bytes) -> None:
        try:
            self._parser.feed_data(piece)
        except HttpParserUpgrade as ended:
            self._at -= len(piece) - ended.args[0]
            self._is_raw = True
            self._raw_received(b"")
        except HttpParserCallbackError:
            raise
        except HttpParserError as error:
            self._is_malformed(str(error))

    def _is_malformed(self, why: str) -> None:
        if not self._is_deaf:
            self._is_deaf = True
            self._events.append(_Malformed(why))

    def _raw_received(self, piece: bytes) -> None:
        if piece:
            self.on_body(piece)
        if not self._left_bytes and not self._is_deaf:
            self._is_deaf = True
            self._events.append(_END)

    def on_message_begin(self) -> None:
        self._target = ""
        self._headers: dict[str, str] = {}

    def on_url(self, part: bytes) -> None:
        self._target += part.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header. Headers after a body in chunks are left out."""
        if self._is_in_body:
            return
        key, text = name.decode("latin-1").lower(), value.strip(b" \t").decode("latin-1")
        if key in self._headers:
            text = f"{self._headers[key]}{'; ' if key == 'cookie' else ','}{text}"
        self._headers[key] = text

    def on_headers_complete(self) -> None:
        parser, version = self._parser, self._parser.get_http_version()
        is_upgrade = parser.should_upgrade()
        head = RequestHead(
            parser.get_method().decode(),
            self._target,
            f"HTTP/{version}",
            self._headers,
            parser.should_keep_alive() and not is_upgrade,
        )
        if why := _faults(head, version, is_upgrade):
            self._is_malformed(why)
        if self._is_deaf:
            return
        self._head = head
        self._is_in_body, self._fruitless_bytes = True, 0
        self._left_bytes = int(head.headers.get("content-length") or 0)
        self._events.append(head)

    def on_body(self, piece: bytes) -> None:
        if self._is_deaf:
            return
        self._fruitless_bytes = 0
        if self._left_bytes:
            self._left_bytes -= len(piece)
        self._events.append(piece)

    def on_message_complete(self) -> None:
        if self._is_deaf or self._parser.should_upgrade():
            return
        self._is_in_body, self._fruitless_bytes = False, 0
        self._events.append(_END)
        self._is_deaf = not self._head.is_kept

    # Exchanges

    def _advance(self) -> None:
        """Parse the input and hand it on, up to the end of the request that is under way."""
        while self._exchange is None or not self._is_received:
            if self._events:
                self._hand_on(self._events.popleft())
            elif self._at < len(self._ahead) and not self._is_deaf:
                self._parse(self._next_piece())
            else:
                self._ahead, self._at = b"", 0
                break
        is_more = bool(self._events) or (self._at < len(self._ahead) and not self._is_deaf)
        if self._is_paused != is_more and not self._transport.is_closing():
            self._is_paused = is_more
            if is_more:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _hand_on(self, event: _Event) -> None:
        if isinstance(event, _Malformed):
            self._refuse(event.why)
        elif isinstance(event, RequestHead):
            self._is_received = False
            self._exchange = self._owner.begin_exchange(self, event)
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
            if self._exchange.is_answered_early:
                self._exchange.is_cut_short()
                return
            self._exchange.on_connection_close()
            self._exchange = None
        self._transport.write(MALFORMED)
        self._transport.close()

    def done(self) -> None:
        """Note that the request is answered, so that the next one may begin."""
        self._exchange = None
        self._advance()

    # Answers

    @property
    def is_gone(self) -> bool:
        return self._transport.is_closing()

    async def send(self, data: bytes) -> None:
        """Send the bytes and return once the kernel has taken them. Raises GoneError."""
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
        """Send the bytes and close the connection."""
        self._is_deaf = True
        self._transport.write(last)
        self._transport.close()

    def close(self) -> None:
        """Close the connection at once, whatever is being sent or received."""
        self._is_deaf = True
        self._transport.abort()


def _faults(head: RequestHead, version: str, is_upgrade: bool) -> str:
    """Return what llhttp accepts and this server doesn't; empty if there is nothing."""
    if version not in VERSIONS:
        return f"HTTP {version}"
    if not head.target.startswith("/") and not _is_url(head.target):
        return "a target that is no URL"
    host = head.headers.get("host")
    if not host or "," in host:  # Repeated ones are joined by commas
        return "no Host, or several"
    coding = head.headers.get("transfer-encoding")
    if coding is None:
        return ""
    if version == "1.0" or is_upgrade or coding.lower() != "chunked":
        return f"a body that is {coding} in HTTP {version}"
    return ""


def _is_url(text: str) -> bool:
    try:
        urlsplit(text)
    except ValueError:
        return False
    return True

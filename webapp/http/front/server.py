"""Takes connections, and has threads answer whole requests."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, TypeVar, cast
from wsgiref.types import WSGIApplication

from tornado.http1connection import (
    HTTP1Connection,
    HTTP1ConnectionParameters,
    HTTP1ServerConnection,
)
from tornado.httputil import HTTPConnection, HTTPServerConnectionDelegate
from tornado.iostream import IOStream, StreamClosedError
from tornado.tcpserver import TCPServer

from webapp.http import postponed
from webapp.http.client_address import network
from webapp.http.front.application import PIECE_BYTES, Answer, answered, completed, whole
from webapp.http.front.connections import Connection, Connections
from webapp.http.front.exchange import Exchange
from webapp.http.front.gathering import Gathering
from webapp.http.trouble import answer
from webapp.service import pulse

MOST_HEAD_BYTES = 64 * 1024
SEND_BUFFER_BYTES = 256 * 1024
"""Of the kernel. It asks for more only when a third is sent, so a large one hides slow progress."""
FILE_THREADS, THREADS_FOR_PAGES = 2, 2
LOOK_SECONDS, LATE_SECONDS, LINGER_SECONDS = 1.0, 3.0, 0.5
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)

Result = TypeVar("Result")
logger = logging.getLogger(__name__)


class Front(TCPServer, HTTPServerConnectionDelegate):
    """Serves an application on sockets that are added to it."""

    def __init__(
        self,
        application: WSGIApplication,
        threads: int,
        connections: Connections,
        is_behind_proxies: bool,
        name: tuple[str, str],
    ) -> None:
        super().__init__(read_chunk_size=PIECE_BYTES)
        self.connections, self.is_behind_proxies, self.name = connections, is_behind_proxies, name
        self._application, self._gathering = application, Gathering()
        self._threads = ThreadPoolExecutor(threads, "web")
        # However many uploads are complete at the same moment, pages find a thread.
        self._uploads = asyncio.Semaphore(max(1, threads - THREADS_FOR_PAGES))
        self._file_threads = ThreadPoolExecutor(FILE_THREADS, "files")
        self._parameters = HTTP1ConnectionParameters(
            chunk_size=PIECE_BYTES, max_header_size=MOST_HEAD_BYTES
        )
        self._tasks: set[asyncio.Task[None]] = set()

    # Connections

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        is_internet = stream.socket.family in (socket.AF_INET, socket.AF_INET6)
        connection = Connection(stream, address[0] if is_internet else "")
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        if self._admits(connection):
            HTTP1ServerConnection(stream, self._parameters, connection).start_serving(self)
        else:
            self.connections.remove(connection)
            self.spawn(_refuse(stream), connection)

    def _admits(self, connection: Connection) -> bool:
        if not self.connections.add(connection):
            return False
        if self.is_behind_proxies or not connection.peer:
            return True
        return self.connections.claim(connection, network(connection.peer))

    def start_request(self, _: object, http: HTTPConnection) -> Exchange:
        """A connection waits for a request; its record is the context of all of them."""
        exchange = Exchange(self, cast("HTTP1Connection", http))
        exchange.connection.wait()
        return exchange

    def on_close(self, server_conn: object) -> None:
        context = cast("HTTP1ServerConnection", server_conn).context
        self.connections.remove(cast("Connection", context))

    async def watch(self) -> None:
        """End what is too slow, and tell the supervisor that this loop turns."""
        loop = asyncio.get_running_loop()
        while True:
            pulse.give()
            began_at = loop.time()
            await asyncio.sleep(LOOK_SECONDS)
            if loop.time() - began_at > LATE_SECONDS:
                self.connections.forgive()
            for connection in self.connections.overdue():
                connection.end()

    # Work

    def spawn(self, work: Coroutine[Any, Any, None], connection: Connection) -> None:
        """Work for a connection, which ends if that fails."""
        task = asyncio.create_task(_done(work, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def answered(self, environ: dict[str, Any]) -> Answer:
        """Raises nothing that the application raises: that is an answer, too."""
        postponed.offer(environ)
        try:
            said = await self._in_thread(environ)
            if left := postponed.left_of(environ):
                return completed(said, await self._gathering.answered(left))
            return said
        except Exception as error:
            if trouble := answer(environ["PATH_INFO"], error):
                return whole(trouble)
            logger.exception("the application failed")
            return Answer(500, "Internal Server Error", [("Content-Length", "0")], b"")

    async def _in_thread(self, environ: dict[str, Any]) -> Answer:
        has_body = environ.get("CONTENT_LENGTH", "0") != "0"
        async with self._uploads if has_body else nullcontext():
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, answered, self._application, environ)

    async def read(self, answer: Answer) -> bytes:
        """The next piece of what follows; b"" at the end."""
        rest = answer.rest
        if rest is None:
            return b""
        if not answer.is_foreign:
            return rest.read(PIECE_BYTES)
        return await self.in_file_thread(lambda: rest.read(PIECE_BYTES))

    async def in_file_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._file_threads, work)

    # Ending

    async def end(self, patience_seconds: float) -> None:
        """Take no more connections; answer the requests that are under way."""
        self.stop()
        self._parameters.no_keep_alive = True
        loop = asyncio.get_running_loop()
        # A client may be sending its next request at this moment.
        linger_until, until = loop.time() + LINGER_SECONDS, loop.time() + patience_seconds
        while len(self.connections) and loop.time() < until:
            if loop.time() > linger_until:
                for connection in self.connections.waiting():
                    connection.stream.close()
            await asyncio.sleep(0.05)


async def _refuse(stream: IOStream) -> None:
    await stream.write(REFUSAL)
    stream.close()


async def _done(work: Coroutine[Any, Any, None], connection: Connection) -> None:
    try:
        await work
    except StreamClosedError:
        pass
    except Exception:
        logger.exception("a request failed")
        connection.stream.close()

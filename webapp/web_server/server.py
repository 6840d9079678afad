"""Takes connections, and has threads answer whole requests."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from wsgiref.types import WSGIApplication

from webapp.http.addresses import to_network
from webapp.http.gathered import Operation, WholeRequest, middleware_headers
from webapp.http.trouble import answer
from webapp.web_server.application import PIECE_BYTES, HttpAnswer, call_application, to_answer
from webapp.web_server.connections import Connection, Connections
from webapp.web_server.exchange import Exchange
from webapp.web_server.gathering import Gathering
from webapp.web_server.stream import GoneError, RequestHead, Stream

BACKLOG = 1024
"""Connections that the kernel keeps until the loop takes them."""
SEND_BUFFER_BYTES = 256 * 1024
"""The kernel's send buffer. The kernel asks for more only when a third is sent, so a large buffer
hides slow progress."""
FILE_THREADS, THREADS_FOR_PAGES = 2, 2
LOOK_SECONDS, LATE_SECONDS, LINGER_SECONDS = 1.0, 3.0, 0.5
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)

Result = TypeVar("Result")
logger = logging.getLogger(__name__)


class WebServer:
    """Serves an application."""

    def __init__(
        self,
        application: WSGIApplication,
        threads: int,
        connections: Connections,
        is_behind_proxies: bool,
        name: tuple[str, str],
        gathered: Operation,
    ) -> None:
        """Create a server. `gathered` is the operation whose requests are answered many at a
        time.
        """
        self.connections, self.is_behind_proxies, self.name = connections, is_behind_proxies, name
        self._application, self.gathering = application, Gathering(gathered)
        self._threads = ThreadPoolExecutor(threads, "web")
        # However many uploads are complete at the same moment, pages find a thread.
        self._uploads = asyncio.Semaphore(max(1, threads - THREADS_FOR_PAGES))
        self._file_threads = ThreadPoolExecutor(FILE_THREADS, "files")
        self._servers: list[asyncio.Server] = []
        self.is_ending = False
        """True once each connection ends with the answer that is under way."""
        self._tasks: set[asyncio.Task[None]] = set()

    # Connections

    async def listen(self, sockets: Iterable[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        for each in sockets:
            each.setblocking(False)
            self._servers.append(
                await loop.create_server(lambda: Stream(self), sock=each, backlog=BACKLOG)
            )

    def open_connection(self, stream: Stream, transport: asyncio.Transport) -> Connection:
        client: socket.socket = transport.get_extra_info("socket")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        is_internet = client.family in (socket.AF_INET, socket.AF_INET6)
        peer = transport.get_extra_info("peername") if is_internet else None
        connection = Connection(stream, peer[0] if peer else "")
        if not self._admits(connection):
            self.connections.remove(connection)
            stream.end(REFUSAL)
        return connection

    def _admits(self, connection: Connection) -> bool:
        if not self.connections.add(connection):
            return False
        if self.is_behind_proxies or not connection.peer:
            return True
        return self.connections.claim(connection, to_network(connection.peer))

    def begin_exchange(self, stream: Stream, head: RequestHead) -> Exchange:
        return Exchange(self, stream.connection, head)

    def remove_connection(self, connection: Connection) -> None:
        self.connections.remove(connection)

    async def watch(self, turned: Callable[[], None]) -> None:
        """End connections that are too slow.

        Args:
            turned: called every second, to tell that this loop turns.
        """
        loop = asyncio.get_running_loop()
        while True:
            turned()
            began_at = loop.time()
            await asyncio.sleep(LOOK_SECONDS)
            if loop.time() - began_at > LATE_SECONDS:
                self.connections.forgive()
            for connection in self.connections.overdue():
                connection.end()

    # Work

    def spawn(self, work: Coroutine[Any, Any, None], connection: Connection) -> None:
        """Start work for a connection, which ends if the work fails."""
        task = asyncio.create_task(_delivered(work, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def answer_request(self, environ: dict[str, Any]) -> HttpAnswer:
        """Answer a request. An exception of the application becomes an answer, too."""
        work = partial(call_application, self._application, environ)
        has_body = environ.get("CONTENT_LENGTH", "0") != "0"
        try:
            return await (self._upload_done(work) if has_body else self._done(work))
        except Exception as error:
            return _instead(environ["PATH_INFO"], error)

    async def answer_gathered(self, asked: WholeRequest) -> HttpAnswer:
        """Answer a request together with others; an exception of the operation becomes an answer,
        too.
        """
        try:
            said = await self.gathering.answer(asked)
            answer = to_answer(await self._upload_done(said) if callable(said) else said)
        except Exception as error:
            answer = _instead(asked.target, error)
        proto = asked.headers.get("x-forwarded-proto") or ""
        answer.headers = [*middleware_headers(proto), *answer.headers]
        return answer

    async def _upload_done(self, work: Callable[[], Result]) -> Result:
        async with self._uploads:
            return await self._done(work)

    async def _done(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def read(self, answer: HttpAnswer) -> bytes:
        """Return the next piece of the content, b"" at the end."""
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
        for each in self._servers:
            each.close()
        self.is_ending = True
        loop = asyncio.get_running_loop()
        # A client may be sending its next request at this moment.
        linger_until, until = loop.time() + LINGER_SECONDS, loop.time() + patience_seconds
        while len(self.connections) and loop.time() < until:
            if loop.time() > linger_until:
                for connection in self.connections.waiting():
                    connection.stream.close()
            await asyncio.sleep(0.05)


async def _delivered(work: Coroutine[Any, Any, None], connection: Connection) -> None:
    try:
        await work
    except GoneError:
        pass
    except Exception:
        logger.exception("a request failed")
        connection.stream.close()


def _instead(path: str, error: Exception) -> HttpAnswer:
    """Return the answer to a request that raised an error."""
    if trouble := answer(path, error):
        return to_answer(trouble)
    logger.error("the application failed", exc_info=error)
    return HttpAnswer(500, "Internal Server Error", [("Content-Length", "0")], b"")

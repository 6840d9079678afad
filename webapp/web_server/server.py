"""Takes connections, and hands their requests to exchanges."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable

from webapp.http.addresses import to_network
from webapp.web_server.answering import Answering
from webapp.web_server.connections import Connection, Connections
from webapp.web_server.exchange import Exchange
from webapp.web_server.stream import RequestHead, Stream

BACKLOG = 1024
"""Connections that the kernel keeps until the loop takes them."""
SEND_BUFFER_BYTES = 256 * 1024
"""The kernel's send buffer. The kernel asks for more only when a third is sent, so a large buffer
hides slow progress."""
LOOK_SECONDS, LATE_SECONDS, LINGER_SECONDS = 1.0, 3.0, 0.5
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)


class WebServer:
    """Serves what is answered to the requests of many connections."""

    def __init__(self, answering: Answering, connections: Connections) -> None:
        self.answering, self.connections = answering, connections
        self._connection_of: dict[Stream, Connection] = {}
        self._servers: list[asyncio.Server] = []

    async def listen(self, sockets: Iterable[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        for each in sockets:
            each.setblocking(False)
            self._servers.append(
                await loop.create_server(lambda: Stream(self), sock=each, backlog=BACKLOG)
            )

    def open_connection(self, stream: Stream, transport: asyncio.Transport) -> None:
        client: socket.socket = transport.get_extra_info("socket")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        is_internet = client.family in (socket.AF_INET, socket.AF_INET6)
        peer = transport.get_extra_info("peername") if is_internet else None
        connection = self._connection_of[stream] = Connection(stream, peer[0] if peer else "")
        if not self._admits(connection):
            self.connections.remove(connection)
            stream.end(REFUSAL)

    def _admits(self, connection: Connection) -> bool:
        if not self.connections.add(connection):
            return False
        if self.connections.is_behind_proxies or not connection.peer:
            return True
        return self.connections.claim(connection, to_network(connection.peer))

    def begin_exchange(self, stream: Stream, head: RequestHead) -> Exchange:
        return Exchange(self.answering, self.connections, self._connection_of[stream], head)

    def remove_connection(self, stream: Stream) -> None:
        self.connections.remove(self._connection_of.pop(stream))

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

    async def end(self, patience_seconds: float) -> None:
        """Take no more connections; answer the requests that are under way."""
        for each in self._servers:
            each.close()
        self.connections.is_ending = True
        loop = asyncio.get_running_loop()
        # A client may be sending its next request at this moment.
        linger_until, until = loop.time() + LINGER_SECONDS, loop.time() + patience_seconds
        while len(self.connections) and loop.time() < until:
            if loop.time() > linger_until:
                for connection in self.connections.waiting():
                    connection.stream.close()
            await asyncio.sleep(0.05)

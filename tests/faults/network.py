"""The network between agents, service, database and S3: it can hold, lie and lose answers."""

from __future__ import annotations

import http.client
import select
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, ThreadingTCPServer

PIECE_BYTES = 65_536
HOP_HEADERS = {"connection", "transfer-encoding", "content-length", "host"}
PAGES: dict[str, tuple[int, str]] = {
    "a proxy answers 404 in HTML": (404, "<html><h1>404 Not Found</h1></html>"),
    "a proxy answers 502 in HTML": (502, "<html><h1>502 Bad Gateway</h1></html>"),
    "a proxy answers 200 with a sign-in page": (200, "<html><h1>Sign in</h1></html>"),
}
"""The pages with which a proxy speaks for itself."""
TRUNCATED, LOST = "answers are cut in half", "answers are lost after the commit"


@dataclass
class Link:
    """A network path that may be partitioned: nothing passes until it is whole again."""

    whole: threading.Event = field(default_factory=threading.Event)
    breaks: int = 0
    """The number of times that connections that were held in a partition were reset at its end."""

    def __post_init__(self) -> None:
        self.whole.set()

    @contextmanager
    def partitioned(self, resets: bool) -> Iterator[None]:
        """Lose all packets; afterwards TCP sends them again, or the connections are gone."""
        self.whole.clear()
        try:
            yield
        finally:
            self.breaks += resets
            self.whole.set()

    def passes(self) -> bool:
        """Waits out a partition; False if the connection didn't survive it."""
        if self.whole.is_set():
            return True
        before = self.breaks
        self.whole.wait()
        return self.breaks == before


class Pipe:
    """Forwards a TCP port of its own to another."""

    def __init__(self, target: tuple[str, int], link: Link) -> None:
        pipe = self

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                pipe._forward(self.request)

        self._target, self._link = target, link
        self._server = _QuietTCPServer(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._link.whole.set()
        self._server.shutdown()
        self._server.server_close()

    def _forward(self, near: socket.socket) -> None:
        with suppress(OSError), socket.create_connection(self._target, 5) as far:
            other = {near: far, far: near}
            while True:
                for ready in select.select([near, far], [], [])[0]:
                    piece = ready.recv(PIECE_BYTES)
                    if not piece or not self._link.passes():
                        return
                    other[ready].sendall(piece)


class _QuietTCPServer(ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False


class Front:
    """The HTTP path from agents to the service. `lie` names what it does to each request."""

    def __init__(self, port: int) -> None:
        self.link = Link()
        self.lie = ""
        self._target = port
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def lying(self, lie: str) -> Iterator[None]:
        self.lie = lie
        try:
            yield
        finally:
            self.lie = ""

    def close(self) -> None:
        self.link.whole.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        front = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with suppress(OSError, http.client.HTTPException):
                    if front.link.passes() and front._answer(self, body):
                        return
                self.close_connection = True

            def do_POST(self) -> None:
                self.do_PUT()

            def log_message(self, *arguments: object) -> None:
                """The figures tell what happened."""

        return Handler

    def _answer(self, client: BaseHTTPRequestHandler, body: bytes) -> bool:
        """Answer a request; return False if the connection ends without a whole answer."""
        lie = self.lie
        if lie in PAGES:
            status, page = PAGES[lie]
            return _send(client, status, {"Content-Type": "text/html"}, page.encode())
        status, headers, content = self._forwarded(client, body)
        if lie == LOST or not self.link.passes():
            return False
        if lie == TRUNCATED:
            _send(client, status, headers, content, len(content) // 2)
            return False
        return _send(client, status, headers, content)

    def _forwarded(
        self, client: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._target, timeout=30)
        try:
            connection.request(
                client.command, client.path, body, _end_to_end(client.headers.items())
            )
            answer = connection.getresponse()
            return answer.status, _end_to_end(answer.getheaders()), answer.read()
        finally:
            connection.close()


def _end_to_end(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in items if name.lower() not in HOP_HEADERS}


def _send(
    client: BaseHTTPRequestHandler,
    status: int,
    headers: dict[str, str],
    content: bytes,
    most_bytes: int | None = None,
) -> bool:
    client.send_response(status)
    for name, value in headers.items():
        client.send_header(name, value)
    client.send_header("Content-Length", str(len(content)))
    client.end_headers()
    client.wfile.write(content[:most_bytes])
    client.wfile.flush()
    return True

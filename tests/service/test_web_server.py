"""The web server, with an application that says what it got: slow and hostile clients."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import http.client
import io
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.running_service import wait_until
from webapp.http.gathered import AnswerOrWork, Operation, WholeRequest
from webapp.ingest import artefacts
from webapp.service.address import Bind
from webapp.web_server import __main__ as process
from webapp.web_server import connections as limits
from webapp.web_server import exchange, server, stream
from webapp.web_server.answering import Answering
from webapp.web_server.connections import Connections
from webapp.web_server.server import WebServer

LARGE_BYTES = 8_000_000
PATIENCE_SECONDS = 20
IN_CHUNKS = (
    f"PUT {exchange.CHUNKED_PATHS}a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
).encode()


class Application:
    """Answers with what it was asked; `/wait` only once it is let go."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.waits = threading.Semaphore(0)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        path = environ["PATH_INFO"]
        if path == "/crash":
            raise RuntimeError("on purpose")
        if path == "/wait":
            self.waits.release()
            assert self.may_go_on.wait(PATIENCE_SECONDS)
        if path == "/nothing":
            start_response("204 No Content", [])
            return []
        if path == "/same":
            start_response("304 Not Modified", [("Content-Length", "7")])
            return [b"content"]
        if path == "/file":
            start_response("200 OK", [("Content-Length", str(LARGE_BYTES))])
            return environ["wsgi.file_wrapper"](io.BytesIO(b"f" * LARGE_BYTES))
        if path == "/unknown":
            start_response("200 OK", [])
            return environ["wsgi.file_wrapper"](io.BytesIO(b"u" * LARGE_BYTES))
        if path == "/split":
            start_response("200 OK", [("X-Split", "a\r\nSet-Cookie: b=c")])
            return [b""]
        if path == "/written":
            start_response("200 OK", [])(b"first, ")
            return [b"then"]
        if path == "/parts":
            start_response("200 OK", [])
            return (b"p" * 1000 for _ in range(LARGE_BYTES // 1000))
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(_seen(environ)).encode()]


def _seen(environ: dict[str, Any]) -> dict[str, Any]:
    has_length = environ.get("CONTENT_LENGTH", "").isdecimal()
    is_read = has_length and int(environ["CONTENT_LENGTH"]) <= artefacts.MOST_BYTES
    body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])) if is_read else b""
    plain = {name: value for name, value in environ.items() if isinstance(value, str)}
    return plain | {"sha256": hashlib.sha256(body).hexdigest(), "length": len(body)}


class Nothing:
    """No operation: nothing is gathered."""

    def takes(self, method: str, target: str) -> bool:
        return False

    def answers(self, asked: Sequence[WholeRequest]) -> list[AnswerOrWork]:
        raise AssertionError(asked)


class Running:
    """A front in a thread of its own."""

    def __init__(
        self,
        threads: int,
        most: int,
        per_address: int,
        is_behind_proxies: bool,
        gathered: Operation,
    ) -> None:
        self.application, self.gathered = Application(), gathered
        self.connections = Connections(most, per_address, is_behind_proxies)
        self._threads = threads
        self._is_listening = threading.Event()
        self.thread = threading.Thread(target=lambda: uvloop.run(self._serve()), daemon=True)
        self.thread.start()
        assert self._is_listening.wait(PATIENCE_SECONDS)

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        name = ("localhost", "80")
        self.answering = Answering(self.application, self._threads, self.gathered, name)
        front = WebServer(self.answering, self.connections)
        listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.listening, self.port = listening, listening.getsockname()[1]
        await front.listen([listening])
        watching = asyncio.create_task(front.watch(lambda: None))
        self._is_listening.set()
        await self._ending.wait()
        await front.end(5)
        watching.cancel()

    def begin_to_end(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)

    def end(self) -> None:
        self.application.may_go_on.set()
        with contextlib.suppress(RuntimeError):  # The loop is closed: a test has ended it
            self.begin_to_end()
        self.thread.join(PATIENCE_SECONDS)

    def connect(self, source: str = "127.0.0.1", head: bytes = b"") -> socket.socket:
        made = socket.create_connection(
            ("127.0.0.1", self.port), PATIENCE_SECONDS, source_address=(source, 0)
        )
        made.sendall(head)
        return made

    def ask(
        self, path: str = "/", source: str = "127.0.0.1", **options: Any
    ) -> tuple[int, dict[str, Any]]:
        client = http.client.HTTPConnection(
            "127.0.0.1", self.port, PATIENCE_SECONDS, source_address=(source, 0)
        )
        with closing(client):
            client.request(options.pop("method", "GET"), path, **options)
            answer = client.getresponse()
            content = answer.read()
            is_json = "json" in answer.getheader("Content-Type", "")
            return answer.status, json.loads(content) if is_json else {"content": content}


@contextmanager
def running(
    threads: int = 2,
    most: int = 200,
    per_address: int = 100,
    is_behind_proxies: bool = False,
    gathered: Operation | None = None,
) -> Iterator[Running]:
    front = Running(threads, most, per_address, is_behind_proxies, gathered or Nothing())
    try:
        yield front
    finally:
        front.end()


@pytest.fixture
def front() -> Iterator[Running]:
    with running() as started:
        yield started


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one second be enough for what takes 20 s."""
    monkeypatch.setattr(limits, "HEAD_SECONDS", 1)
    monkeypatch.setattr(limits, "IDLE_SECONDS", 1)
    monkeypatch.setattr(limits, "WINDOW_SECONDS", 1)


def _until_closed(connection: socket.socket) -> bytes:
    with connection:
        received = b""
        while piece := connection.recv(65_536):
            received += piece
        return received


def _send_until_cut_off(connection: socket.socket, piece: bytes) -> None:
    with connection:
        for _ in range(1000):
            try:
                connection.sendall(piece)
            except ConnectionError:
                return
    pytest.fail("all of it was taken")


def _of(content: dict[str, Any], body: bytes) -> bool:
    return (content["length"], content["sha256"]) == (len(body), hashlib.sha256(body).hexdigest())


# Requests and answers


@pytest.mark.parametrize("size", [1, 65_536, 65_537, 3_000_000])
def test_a_body_arrives_as_it_was_sent(front, size):
    body = bytes(range(256)) * (size // 256 + 1)
    status, seen = front.ask("/a%20b/c?d=e", method="PUT", body=body[:size])
    assert status == 200
    assert _of(seen, body[:size])
    assert (seen["PATH_INFO"], seen["QUERY_STRING"]) == ("/a b/c", "d=e")
    assert (seen["REMOTE_ADDR"], seen["REQUEST_METHOD"]) == ("127.0.0.1", "PUT")


def test_requests_on_one_connection_are_answered_in_their_order(front):
    head = b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n%s\r\nab"
    last = head % (3, b"Connection: close\r\n")
    answers = _until_closed(front.connect(head=head % (1, b"") + head % (2, b"") + last))
    assert answers.count(b"HTTP/1.1 200 OK") == 3
    assert answers.index(b'"/1"') < answers.index(b'"/2"') < answers.index(b'"/3"')


def test_names_with_underscores_are_dropped_and_repeated_headers_joined(front):
    head = (
        b"GET http://elsewhere/path?q HTTP/1.1\r\nHost: x\r\nX_Forwarded_For: 6.6.6.6\r\n"
        b"Cookie: a=1\r\nCookie: b=2\r\nX-More: 1\r\nX-More: 2\r\nConnection: close\r\n\r\n"
    )
    content = _until_closed(front.connect(head=head)).partition(b"\r\n\r\n")[2]
    seen = json.loads(content)
    assert "HTTP_X_FORWARDED_FOR" not in seen
    assert (seen["HTTP_COOKIE"], seen["HTTP_X_MORE"]) == ("a=1; b=2", "1,2")
    assert (seen["PATH_INFO"], seen["QUERY_STRING"]) == ("/path", "q")


@pytest.mark.parametrize(("path", "byte"), [("/file", b"f"), ("/parts", b"p")])
def test_a_long_answer_arrives_whole(front, path, byte):
    status, answer = front.ask(path)
    assert (status, answer["content"]) == (200, byte * LARGE_BYTES)
    status, answer = front.ask(path, method="HEAD")
    assert (status, answer["content"]) == (200, b"")


def test_what_an_application_writes_comes_before_its_content(front):
    assert front.ask("/written") == (200, {"content": b"first, then"})


def test_an_answer_without_content_keeps_the_connection(front):
    client = http.client.HTTPConnection("127.0.0.1", front.port, PATIENCE_SECONDS)
    with closing(client):
        for path, status in (("/nothing", 204), ("/", 200), ("/nothing", 204)):
            client.request("GET", path)
            answer = client.getresponse()
            answer.read()
            assert answer.status == status


def test_a_crash_of_the_application_is_an_answer(front):
    assert front.ask("/crash")[0] == 500
    assert front.ask()[0] == 200


def test_a_body_that_finds_no_room_on_the_disk_is_answered_503(front, settings, tmp_path):
    settings.SCRATCH_DIR = tmp_path / "gone"
    status, problem = front.ask("/", method="PUT", body=b"a" * 200_000)
    assert (status, problem["status"]) == (503, 503)
    assert "disk" in problem["detail"]
    assert front.ask("/", method="PUT", body=b"a" * 100)[0] == 200


@pytest.mark.parametrize(
    "head",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\nHost: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x,y\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n"
        b"\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\na",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: x\r\nUpgrade: a\r\nConnection: upgrade\r\n"
        b"Transfer-Encoding:chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX : a\r\n\r\n",
        b"GET / HTTP/1.1\nX: a\n\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET / HTTP/0.9\r\n\r\n",
        b"GET /\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://[bad HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.10\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\rX: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: a\rb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: a\nY: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX\t: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n X: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\na",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\na",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n 0\r\n\r\na",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551617\r\n\r\na",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: a\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        b"Transfer-Encoding: a\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\nContent-Length: 1\r\n\r\na",
    ],
)
@pytest.mark.parametrize("is_second", [False, True])
def test_a_malformed_request_is_refused(front, head, is_second):
    """The application gets nothing of it, nor of what follows."""
    first = b"GET /first HTTP/1.1\r\nHost: x\r\n\r\n" if is_second else b""
    connection = front.connect(head=first)
    connection.sendall(head + b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
    answers = _until_closed(connection)
    assert answers.count(b"HTTP/1.1 400 Bad Request") == 1
    assert answers.count(b"HTTP/1.1 200 OK") == is_second
    assert b"smuggled" not in answers
    assert front.ask()[0] == 200


@pytest.mark.parametrize(
    "rest", [b"X: " + b"x" * 10**6, b"X: x\r\n" * 10**5], ids=["one line", "many lines"]
)
def test_a_head_that_is_too_long_is_refused(front, rest):
    """The head may end or not."""
    for end in (b"", b"\r\n\r\n"):
        connection = front.connect(head=b"GET / HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):  # It is closed before all is sent
            connection.sendall(rest + end)
            assert _until_closed(connection) in (b"", stream.MALFORMED)
        connection.close()
    just = b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * (stream.MOST_HEAD_BYTES - 100) + b"\r\n"
    answer = _until_closed(front.connect(head=just + b"Connection: close\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "body",
    [
        b"3\r\nabc\r\nzz\r\n",
        b"3\r\nabcd\r\n",
        b"3\nabc\r\n0\r\n\r\n",
        b"-1\r\n\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"3 \r\nabc\r\n0\r\n\r\n",
        b"3;a\nb\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabc0\r\n\r\n",
        b"3\r\nabc\r\n0\r\n\n",
        b"3\r\nabc\r\n0\r\nX: a\nY: b\r\n\r\n",
        b"FFFFFFFFFFFFFFFFF\r\nabc",
    ],
)
def test_malformed_chunks_are_refused(front, body):
    head = IN_CHUNKS
    answers = _until_closed(front.connect(head=head + body))
    assert b"400 Bad Request" in answers
    assert b"200 OK" not in answers
    wait_until(lambda: front.connections.held_bytes == 0, PATIENCE_SECONDS, "its body is gone")


def test_a_long_head_may_come_in_any_pieces(front):
    lines = b"X-More: 0123456789abcdef\r\n" * 2400
    head = b"GET / HTTP/1.1\r\nHost: x\r\n" + lines + b"Connection: close\r\n\r\n"
    assert 60_000 < len(head) < stream.MOST_HEAD_BYTES
    connection = front.connect()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for start in range(0, len(head), 3000):
        connection.sendall(head[start : start + 3000])
        time.sleep(0.002)
    assert _until_closed(connection).startswith(b"HTTP/1.1 200 OK")


def test_a_body_doesnt_count_for_the_head_that_follows(front):
    body = b"x" * 200_000
    connection = front.connect(head=b"PUT /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n")
    connection.sendall(body + b"GET /2 HT")
    assert b'"/1"' in connection.recv(65_536)
    connection.sendall(b"TP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b'"/2"' in _until_closed(connection)


@pytest.mark.parametrize("begin", [b"3;name=", b"3\r\nabc\r\n0\r\nX: "])
def test_what_surrounds_chunks_is_bounded(front, begin):
    """The name of a chunk's extension, and what comes after the last chunk."""
    head = IN_CHUNKS
    connection = front.connect(head=head + begin)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    _send_until_cut_off(connection, b"x" * 65_536)
    wait_until(lambda: len(front.connections) == 0, PATIENCE_SECONDS, "it is cut off")


def test_what_surrounds_chunks_is_refused_whether_it_ends_or_not(front):
    head = IN_CHUNKS
    for around in (b"3;" + b"x" * 10**6, b"3\r\nabc\r\n0\r\n" + b"X: x\r\n" * 10**5):
        connection = front.connect(head=head)
        with contextlib.suppress(ConnectionError):  # It is closed before all is sent
            connection.sendall(around)
            assert _until_closed(connection) in (b"", stream.MALFORMED)
        connection.close()
    wait_until(lambda: len(front.connections) == 0, PATIENCE_SECONDS, "all are closed")


def test_malformed_chunks_spoil_no_answer_that_is_under_way(front):
    head = b"PUT /file HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
    connection = front.connect(head=head)
    begin = connection.recv(1)
    connection.sendall(b"zz\r\n")
    answer = begin + _until_closed(connection)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.partition(b"\r\n\r\n")[2] == b"f" * LARGE_BYTES


@pytest.mark.parametrize("trailer", [b"", b"Host: y\r\nX-More: 1\r\n"])
def test_chunks_arrive_as_a_body_with_a_length(front, trailer):
    head = (
        f"PUT {exchange.CHUNKED_PATHS}a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        "Connection: close\r\n\r\n"
    ).encode()
    chunks = b"3;name=value\r\nabc\r\n2\r\nde\r\n0\r\n" + trailer + b"\r\n"
    seen = json.loads(_until_closed(front.connect(head=head + chunks)).partition(b"\r\n\r\n")[2])
    assert _of(seen, b"abcde")
    assert seen["CONTENT_LENGTH"] == "5"
    assert not {"HTTP_TRANSFER_ENCODING", "HTTP_X_MORE"} & seen.keys()


def test_chunks_that_become_too_long_are_refused(front, monkeypatch):
    monkeypatch.setattr(exchange, "MOST_BODY_BYTES", 4)
    head = IN_CHUNKS
    answer = _until_closed(front.connect(head=head + b"5\r\nabcde\r\n0\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_it_doesnt_matter_how_the_bytes_come(front, pieces):
    request = b"POST /a%20b?c HTTP/1.1\r\nHost: x\r\nX-Long: long\r\nContent-Length: 5\r\n\r\nabcde"
    last = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    connection = front.connect()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    whole = request + request + last
    for start in range(0, len(whole), pieces):
        connection.sendall(whole[start : start + pieces])
    answers = _until_closed(connection).split(b"HTTP/1.1 200 OK")[1:]
    seen = [json.loads(each.partition(b"\r\n\r\n")[2]) for each in answers]
    assert [each["PATH_INFO"] for each in seen] == ["/a b", "/a b", "/last"]
    assert all(_of(each, b"abcde") and each["HTTP_X_LONG"] == "long" for each in seen[:2])


def test_a_client_that_sends_ahead_is_read_no_further(front):
    """One request is worked on; the rest waits with the client once the kernel has its part."""
    connection = front.connect(head=b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
    assert front.application.waits.acquire(timeout=PATIENCE_SECONDS)
    connection.settimeout(1)
    head = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 1000
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 100_000_000:
            sent += connection.send(head)
    assert sent < 100_000_000
    front.application.may_go_on.set()
    connection.settimeout(PATIENCE_SECONDS)
    assert connection.recv(65_536).startswith(b"HTTP/1.1 200 OK")
    connection.close()
    assert front.ask()[0] == 200


def test_what_a_client_sends_ahead_stays_bytes(front):
    """Objects would take thirty times as much memory."""
    head = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    connection = front.connect(head=b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n" + head * 2000)
    assert front.application.waits.acquire(timeout=PATIENCE_SECONDS)
    connection.sendall(head * 2000)
    kept = sum(type(each) is stream.RequestHead for each in gc.get_objects())
    assert kept < 20, "this one, and what other tests left"
    front.application.may_go_on.set()
    connection.sendall(b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + head)
    answers = _until_closed(connection)
    assert answers.count(b"HTTP/1.1 200 OK") == 4002
    assert b'"/last"' in answers[-2000:]


@pytest.mark.parametrize(
    ("request_line", "path"),
    [(b"CONNECT example.org:443", ""), (b"OPTIONS *", "*"), (b"GET http://x", "/")],
)
def test_targets_that_are_no_paths_are_the_applications_matter(front, request_line, path):
    head = request_line + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answers = _until_closed(front.connect(head=head + b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"))
    assert answers.count(b"HTTP/1.1 ") == 1
    assert b"smuggled" not in answers
    seen = json.loads(answers.partition(b"\r\n\r\n")[2])
    assert seen["REQUEST_METHOD"] == request_line.split()[0].decode()
    if path:
        assert seen["PATH_INFO"] == path


def test_values_of_headers_are_latin_1(front):
    head = "GET / HTTP/1.1\r\nHost: x\r\nX-Name:  M\xfcller \t\r\nConnection: close\r\n\r\n"
    answer = _until_closed(front.connect(head=head.encode("latin-1")))
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["HTTP_X_NAME"] == "M\xfcller"


def test_an_answer_304_has_no_content(front):
    head = b"GET /same HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = _until_closed(front.connect(head=head))
    assert answer.startswith(b"HTTP/1.1 304 Not Modified")
    assert answer.endswith(b"\r\n\r\n")


def test_who_ends_the_sending_side_is_gone(front):
    connection = front.connect(head=b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
    assert front.application.waits.acquire(timeout=PATIENCE_SECONDS)
    connection.shutdown(socket.SHUT_WR)
    assert _until_closed(connection) == b""
    wait_until(lambda: len(front.connections) == 0, PATIENCE_SECONDS, "it is forgotten")
    front.application.may_go_on.set()
    assert front.ask()[0] == 200


def test_sockets_send_at_once_and_hide_little(front, monkeypatch):
    options = []
    open_connection = WebServer.open_connection

    def noted(self: WebServer, made: stream.Stream, transport: asyncio.Transport) -> Any:
        connection = open_connection(self, made, transport)
        own = transport.get_extra_info("socket")
        options.append(
            (
                own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
                own.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF),
            )
        )
        return connection

    monkeypatch.setattr(WebServer, "open_connection", noted)
    assert front.ask()[0] == 200
    ((has_no_delay, send_buffer_bytes),) = options
    assert has_no_delay
    # Linux says the double of what was set; the host may allow less.
    assert send_buffer_bytes <= 2 * server.SEND_BUFFER_BYTES


def test_the_kernel_keeps_many_connections_until_they_are_taken(front):
    """Linux says how many in the sixth number of a listening socket's TCP_INFO."""
    info = front.listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    assert struct.unpack_from("I", info, 8 + 5 * 4)[0] == min(server.BACKLOG, most)


@pytest.mark.parametrize(
    ("version", "said", "is_kept"),
    [
        ("1.1", "", True),
        ("1.1", "Connection: close\r\n", False),
        ("1.0", "", False),
        ("1.0", "Connection: keep-alive\r\n", True),
        ("1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\n", False),
        ("1.1", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n", False),
    ],
)
def test_a_connection_is_kept_as_the_client_says(front, version, said, is_kept):
    """One that asks for another protocol is answered in this one; its body is read."""
    request = f"POST /%s HTTP/{version}\r\nHost: x\r\n{said}Content-Length: 3\r\n\r\nabc"
    connection = front.connect(head=(request % "one").encode())
    answer = connection.recv(65_536)
    assert _of(json.loads(answer.partition(b"\r\n\r\n")[2]), b"abc")
    if not is_kept:
        assert b"Connection: close" in answer
        assert connection.recv(1) == b""
        return
    assert (b"Connection: keep-alive" in answer) == (version == "1.0")
    connection.sendall((request % "two").encode())
    assert b'"/two"' in connection.recv(65_536)
    connection.close()


def test_a_client_that_asks_first_is_told_to_send(front):
    head = b"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    connection = front.connect(head=head % 5)
    assert connection.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sendall(b"abcde")
    assert _of(json.loads(connection.recv(65_536).partition(b"\r\n\r\n")[2]), b"abcde")
    connection.close()
    refused = front.connect(head=head % (exchange.MOST_BODY_BYTES + 1))
    assert refused.recv(65_536).startswith(b"HTTP/1.1 200 OK")
    refused.close()


def test_an_application_cant_send_a_header_of_two_lines(front):
    assert _until_closed(front.connect(head=b"GET /split HTTP/1.1\r\nHost: x\r\n\r\n")) == b""
    assert front.ask()[0] == 200


def test_an_answer_whose_length_nobody_knows_ends_with_the_connection(front):
    answer = _until_closed(front.connect(head=b"GET /unknown HTTP/1.1\r\nHost: x\r\n\r\n"))
    head, _, content = answer.partition(b"\r\n\r\n")
    assert b"Connection: close" in head
    assert content == b"u" * LARGE_BYTES


def test_the_application_says_why_a_body_is_not_read(front):
    too_long = str(exchange.MOST_BODY_BYTES + 1)
    assert exchange.MOST_BODY_BYTES >= artefacts.MOST_BYTES
    head = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n" % too_long.encode()
    connection = front.connect(head=head + b"x" * 100_000)
    answer = connection.recv(65_536)
    assert b"200 OK" in answer
    assert b"Connection: close" in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["CONTENT_LENGTH"] == too_long
    connection.close()
    chunked = (
        b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
    )
    seen = json.loads(_until_closed(front.connect(head=chunked)).partition(b"\r\n\r\n")[2])
    assert (seen["HTTP_TRANSFER_ENCODING"], seen["length"]) == ("chunked", 0)


def test_who_sends_much_that_nobody_reads_sees_the_answer(front):
    """The limit is 8 MiB; who sends more is cut off."""
    head = b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))
    seen = _until_closed(front.connect(head=head + chunk * 7 + b"0\r\n\r\n"))
    assert seen.startswith(b"HTTP/1.1 200 OK")
    _send_until_cut_off(front.connect(head=head), chunk)


# Slow clients


def test_slow_clients_of_all_kinds_keep_no_thread(front):
    """The application has two; each of these would hold one for as long as it likes."""
    kinds = (
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: x",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx",
        b"GET /file HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /parts HTTP/1.1\r\nHost: x\r\n\r\n",
        b"",
    )
    held = [
        front.connect(f"127.0.{number}.1", kinds[number % len(kinds)]) for number in range(1, 61)
    ]
    for _ in range(5):
        for number, connection in enumerate(held, start=1):
            if kinds[number % len(kinds)]:
                connection.send(b"x")
        assert front.ask()[0] == 200
        body = b"honest" * 50_000
        assert _of(front.ask(method="PUT", body=body)[1], body)
    for connection in held:
        connection.close()


def test_a_head_that_never_ends_is_cut_off(impatient, front):
    assert _until_closed(front.connect(head=b"GET / HTTP/1.1\r\nHost: ")) == b""


def test_a_kept_connection_without_requests_is_closed(impatient, front):
    answer = _until_closed(front.connect(head=b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 200 OK")


def test_a_body_that_is_too_slow_is_refused(impatient, front):
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc"
    answer = _until_closed(front.connect(head=head))
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout")
    assert b"application/problem+json" in answer


def test_who_does_not_read_the_answer_is_cut_off(impatient, front):
    with socket.socket() as connection:
        # Else the kernel takes all of the answer for the reader.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(("127.0.0.1", front.port))
        connection.sendall(b"GET /file HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: len(front.connections) == 1, PATIENCE_SECONDS, "the request")
        wait_until(lambda: len(front.connections) == 0, PATIENCE_SECONDS, "the reader is gone")
        assert len(_until_closed(connection)) < LARGE_BYTES


def test_an_honest_slow_upload_is_taken(impatient, front):
    body = b"honest" * 10_000
    head = b"PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    connection = front.connect(head=head % len(body))
    for start in range(0, len(body), 5_000):
        connection.sendall(body[start : start + 5_000])
        time.sleep(0.25)
    assert _of(json.loads(_until_closed(connection).partition(b"\r\n\r\n")[2]), body)


def test_who_leaves_in_the_middle_leaves_nothing_behind(front):
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    for _ in range(5):
        front.connect(head=head + b"x" * 200_000).close()
    wait_until(lambda: len(front.connections) == 0, PATIENCE_SECONDS, "all connections are gone")
    assert front.connections.held_bytes == 0


# Limits


def _keep_busy(front: Running, source: str) -> socket.socket:
    """Open a connection whose request the application works on until it is let go."""
    connection = front.connect(source, b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
    assert front.application.waits.acquire(timeout=PATIENCE_SECONDS)
    return connection


def test_one_address_gets_its_share_of_connections_and_others_theirs():
    with running(threads=4, per_address=3) as front:
        busy = [_keep_busy(front, "127.0.0.2") for _ in range(2)]
        idle = front.connect("127.0.0.2")
        busy.append(_keep_busy(front, "127.0.0.2"))
        assert _until_closed(idle) == b"", "the one that waits makes room"
        assert _until_closed(front.connect("127.0.0.2")).startswith(b"HTTP/1.1 503 ")
        assert front.ask(source="127.0.0.3")[0] == 200
        for connection in busy:
            connection.close()


def test_the_longest_waiting_makes_room_when_all_places_are_taken():
    with running(most=4) as front:
        waiting = [front.connect(f"127.0.0.{number}") for number in range(10, 14)]
        wait_until(lambda: len(front.connections) == 4, PATIENCE_SECONDS, "all are connected")
        assert front.ask()[0] == 200
        assert _until_closed(waiting[0]) == b""
        for connection in waiting[1:]:
            connection.close()


def test_behind_a_proxy_its_word_tells_whose_a_request_is(settings):
    settings.TRUSTED_PROXIES = 1
    with running(threads=3, per_address=1, is_behind_proxies=True) as front:
        slow = b"POST / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\nContent-Length: 9\r\n\r\n"
        held = front.connect(head=slow % b"6.6.6.6, 2001:db8::1")
        wait_until(
            lambda: front.connections.count_for("2001:db8::/64"), PATIENCE_SECONDS, "a request"
        )
        same, other = {"X-Forwarded-For": "2001:db8::2"}, {"X-Forwarded-For": "2001:db8:1::1"}
        status, problem = front.ask(headers=same)
        assert (status, problem["title"]) == (503, "Unavailable")
        assert front.ask(headers=other)[0] == 200
        assert front.ask()[0] == 200, "the proxy itself"
        held.close()
        wait_until(lambda: front.ask(headers=same)[0] == 200, PATIENCE_SECONDS, "room again")


def test_bodies_that_fill_the_disk_are_refused(front, monkeypatch):
    monkeypatch.setattr(limits, "MOST_HELD_BYTES_PER_ADDRESS", 300_000)
    status, problem = front.ask(method="PUT", body=b"x" * 500_000)
    assert (status, problem["fix"]) == (503, "Try again in a few seconds.")
    assert front.ask(method="PUT", body=b"x" * 200_000)[0] == 200


# Ending


def test_a_request_under_way_is_answered_before_the_end(front):
    asked = front.connect(head=b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
    idle = front.connect()
    assert front.application.waits.acquire(timeout=PATIENCE_SECONDS)
    front.begin_to_end()
    assert _until_closed(idle) == b""
    with pytest.raises(ConnectionError):
        front.connect().recv(1)
    front.application.may_go_on.set()
    assert _until_closed(asked).startswith(b"HTTP/1.1 200 OK")
    front.thread.join(PATIENCE_SECONDS)
    assert not front.thread.is_alive()


def test_an_address_of_the_host_that_cant_be_used_is_left_out(monkeypatch):
    """The name `localhost` is ::1 as well in many containers."""
    unusable = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", 0, 0, 0))
    usable = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [unusable, usable])
    (made,) = process._internet_sockets(Bind("localhost", 0), is_shared=False)
    with made:
        assert made.getsockname()[0] == "127.0.0.1"
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [unusable])
    with pytest.raises(OSError, match=r"assign|not supported"):
        process._internet_sockets(Bind("localhost", 0), is_shared=False)

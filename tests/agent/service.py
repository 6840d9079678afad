"""A real HTTP server that takes what agents send, and can be told to misbehave."""

from __future__ import annotations

import hashlib
import json
import re
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from trimtab.wire import (
    PROBLEM_TYPE,
    PROBLEMS_PATH,
    Declaration,
    Event,
    Segment,
    decode_declaration,
    decode_segment,
    split_bodies,
)

_ARTEFACT = re.compile(r".*/api/v1/runs/([0-9a-f-]+)/artefacts/([0-9a-f]{64})\Z")
SEVERAL_PATH = re.compile(r".*/api/v1/runs/[0-9a-f-]+/segments/[0-9a-f-]+\Z")
DECLARATION = re.compile(r".*/api/v1/runs/[0-9a-f-]+\Z")
SEGMENT_PATH = re.compile(r".*/api/v1/runs/([0-9a-f-]+)/segments/([0-9a-f-]+)/(\d+)\Z")


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes
    at: float
    method: str = "PUT"


@dataclass
class Artefact:
    run: str
    kind: str
    name: str
    job: str
    body: bytes


@dataclass
class Reply:
    """The answer to give; the default is what the service says to a new segment."""

    status: int = 200
    document: dict | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    text: str = ""
    """A page of somebody else's, in HTML."""
    problem: str = ""
    """The name of the problem's type; without it an error has the type of earlier services."""

    @property
    def content_type(self) -> str:
        if self.text:
            return "text/html; charset=utf-8"
        return PROBLEM_TYPE if self.status >= 400 else "application/json; charset=utf-8"

    def content(self) -> bytes:
        if self.text or self.status == 204:
            return self.text.encode()
        if self.status >= 400:
            kind = f"https://trimtab.example{PROBLEMS_PATH}#{self.problem}"
            kind = kind if self.problem else "about:blank"
            problem = {"type": kind, "title": "Problem", "status": self.status, "detail": "No."}
            return json.dumps(problem | (self.document or {})).encode()
        document = {
            "duplicate": False,
            "server_time_ns": time.time_ns(),
            "retry_after": None,
            "directives": [],
        }
        return json.dumps(document | (self.document or {})).encode()


class Service:
    """Stores every request; `answer` decides what each gets.

    Like an older service, it takes one segment a request, unless `takes_several`. Then `answer` is
    asked about each, as if it came by itself.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.posts: list[Request] = []
        """Requests with several segments."""
        self.takes_several = False
        self.answer_to_several: Callable[[Request], Reply | None] = lambda request: None
        """The answer to all of them, instead of one to each."""
        self.answer: Callable[[Request], Reply] = lambda request: Reply()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._scheme = "https" if tls else "http"
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def bodies(self) -> dict[tuple[str, int], bytes]:
        """Return the bodies by session and seq, whatever was answered."""
        found = {}
        for request in self.requests:
            if match := SEGMENT_PATH.match(request.path):
                found[match[2], int(match[3])] = request.body
        return found

    @property
    def segments(self) -> list[Segment]:
        """Return them session after session, as they came, and in each in the order of their
        numbers.
        """
        sessions = list(dict.fromkeys(session for session, _ in self.bodies))
        ordered = sorted(self.bodies.items(), key=lambda each: (sessions.index(each[0][0]), each))
        return [decode_segment(body) for _, body in ordered]

    @property
    def declarations(self) -> list[Declaration]:
        bodies = [r.body for r in self.requests if DECLARATION.match(r.path) and r.method == "PUT"]
        return [decode_declaration(body) for body in bodies]

    @property
    def artefacts(self) -> list[Artefact]:
        """Return what was sent under the hash of its content."""
        found = []
        for request in self.requests:
            if match := _ARTEFACT.match(request.path):
                assert hashlib.sha256(request.body).hexdigest() == match[2]
                names = ("Kind", "Name", "Job")
                texts = [unquote(request.headers[f"X-Trimtab-{name}"]) for name in names]
                found.append(Artefact(match[1], *texts, request.body))
        return found

    def events(self, kind: str) -> list[Event]:
        return [event for s in self.segments for event in s.events if event.kind == kind]

    def times_ms(self, kind: str) -> list[int]:
        """Return when these events happened, since 1970."""
        return [s.start_ms + e.time_ms for s in self.segments for e in s.events if e.kind == kind]

    def series(self, name: str) -> list[int | float | None]:
        return [
            value
            for segment in self.segments
            for block in segment.blocks
            for value in block.columns.get(name, [])
        ]

    def _put(self, request: Request) -> Reply:
        self.requests.append(request)
        return self.answer(request)

    def _posted(self, request: Request) -> Reply:
        self.posts.append(request)
        if not self.takes_several or not SEVERAL_PATH.match(request.path):
            return Reply(404)
        if whole := self.answer_to_several(request):
            return whole
        rows, asked = [], {"directives": [], "resend": []}
        for body in split_bodies(request.body):
            path = f"{request.path}/{decode_segment(body).seq}"
            reply = self._put(replace(request, path=path, body=body, method="PUT"))
            document = json.loads(reply.content())
            asked = {name: said or document.get(name, []) for name, said in asked.items()}
            row = {"problem": document} if reply.status >= 400 else document
            rows.append({"status": reply.status, **row})
        return Reply(document={"answers": rows, **asked})

    def _answered(self, reply: Reply, handler: BaseHTTPRequestHandler) -> None:
        time.sleep(reply.delay_seconds)
        content = reply.content()
        handler.send_response(reply.status)
        for name, value in {"Content-Type": reply.content_type, **reply.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        with suppress(BrokenPipeError, ConnectionResetError):  # an agent that was killed
            handler.end_headers()
            handler.wfile.write(content)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service._answered(service._put(self._request(body)), self)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service._answered(service._posted(self._request(body)), self)

            def do_GET(self) -> None:
                service._answered(service._put(self._request(b"")), self)

            def _request(self, body: bytes) -> Request:
                headers = dict(self.headers)
                return Request(self.path, headers, body, time.monotonic(), self.command)

            def log_message(self, *arguments: object) -> None:
                """Tests read `requests` instead."""

        return Handler

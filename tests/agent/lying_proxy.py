"""A real HTTP proxy between agent and service. While it lies, it answers by itself."""

from __future__ import annotations

import http.client
import itertools
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Lie = tuple[int, dict[str, str], bytes]

HTML = {"Content-Type": "text/html"}
LIES: dict[str, Lie] = {
    "ingress without a backend": (404, HTML, b"<html>default backend - 404</html>"),
    "bad gateway": (502, HTML, b"<html>502 Bad Gateway</html>"),
    "redirect": (302, HTML | {"Location": "{elsewhere}/login?next=upload"}, b""),
    "captive portal": (200, HTML, b"<html>Welcome to the guest network</html>"),
    "portal in JSON": (200, {"Content-Type": "application/json"}, b'{"login": "required"}'),
    "receipt as a page": (200, HTML, b'{"duplicate": false, "server_time_ns": 1}'),
    "firewall": (403, HTML, b"<html>Request blocked</html>"),
    "bad request": (400, HTML, b"<html>400 Bad Request</html>"),
    "conflict": (409, {"Content-Type": "application/json"}, b'{"error": "conflict"}'),
    "gone": (410, HTML, b"<html>gone</html>"),
    "empty": (204, {}, b""),
    "another's problem": (
        400,
        {"Content-Type": "application/problem+json"},
        b'{"type": "https://proxy.example/problems/#bad-input", "status": 400}',
    ),
}


class LyingProxy:
    """Forwards to `url`. `is_lying` can be set at any time; the lies take turns."""

    def __init__(self, url: str, elsewhere: str = "http://127.0.0.1:9") -> None:
        self.is_lying = False
        self.told: Counter[str] = Counter()
        self._lies = itertools.cycle(LIES)
        self._elsewhere = elsewhere
        self._target = urlsplit(url)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answered(self, request: BaseHTTPRequestHandler, body: bytes) -> Lie:
        if self.is_lying:
            name = next(self._lies)
            self.told[name] += 1
            status, headers, content = LIES[name]
            named = {key: value.format(elsewhere=self._elsewhere) for key, value in headers.items()}
            return status, named, content
        connection = http.client.HTTPConnection(str(self._target.hostname), self._target.port)
        connection.request(request.command, request.path, body or None, dict(request.headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        dropped = ("transfer-encoding", "connection", "content-length")
        kept = {k: v for k, v in answer.getheaders() if k.lower() not in dropped}
        return answer.status, kept, content

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, headers, content = proxy._answered(self, body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_POST(self) -> None:
                self.do_PUT()

            def do_GET(self) -> None:
                self.do_PUT()

            def log_message(self, *arguments: object) -> None:
                """Tests read `told` instead."""

        return Handler

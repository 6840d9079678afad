"""Small local copies of the metadata services of clouds."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[str, str, dict[str, str]], str | None]


class Stub:
    """`answer` gets method, path and headers; None is 404."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[tuple[str, str]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.asked.append((self.command, self.path))
                body = answer(self.command, self.path, dict(self.headers))
                content = (body or "").encode()
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_PUT(self) -> None:
                self.do_GET()

            def log_message(self, *arguments: object) -> None:
                """Tests read `asked` instead."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def ec2(life_cycle: str | None = "spot") -> Answer:
    document = {
        "accountId": "123456789012",
        "instanceId": "i-0123456789abcdef0",
        "instanceType": "g5.2xlarge",
        "region": "us-east-1",
        "availabilityZone": "us-east-1c",
        "pendingTime": "2026-11-20T08:15:30Z",
    }

    def answer(method: str, path: str, headers: dict[str, str]) -> str | None:
        if (method, path) == ("PUT", "/latest/api/token"):
            return "t0ken" if headers.get("X-aws-ec2-metadata-token-ttl-seconds") else None
        if headers.get("X-aws-ec2-metadata-token") != "t0ken":
            return None
        known = {
            "/latest/dynamic/instance-identity/document": json.dumps(document),
            "/latest/meta-data/instance-life-cycle": life_cycle,
        }
        return known.get(path)

    return answer

"""A Prometheus server as it documents itself, with DCGM-exporter's metrics of two GPUs."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

MOST_POINTS = 11_000


@dataclass
class Prometheus:
    """Answers range queries from `since` on; `asked` are their parameters."""

    since: int
    header: str = ""
    """The Authorization that it wants."""
    value_chars: int = 2
    redirect: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, path: str, header: str) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(path)
        asked = dict(parse_qsl(parts.query))
        self.headers.append(header)
        self.asked.append(asked)
        if header != self.header:
            return 401, {}
        if not parts.path.endswith("/api/v1/query_range"):
            return 404, {}
        start, end, step = (float(asked[name]) for name in ("start", "end", "step"))
        if (end - start) / step > MOST_POINTS:
            error = "exceeded maximum resolution of 11,000 points per timeseries."
            return 400, {"status": "error", "errorType": "bad_data", "error": error}
        series = [self._series(gpu, start, end, step) for gpu in range(2)]
        found = [each for each in series if each["values"]]
        data = {"resultType": "matrix", "result": found}
        return 200, {"status": "success", "data": data}

    def _series(self, gpu: int, start: float, end: float, step: float) -> dict[str, Any]:
        count = int((end - start) / step + 1e-9) + 1
        times = (start + n * step for n in range(count))
        value = "5" * self.value_chars
        metric = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": str(gpu), "Hostname": "node-1"}
        return {"metric": metric, "values": [[at, value] for at in times if at >= self.since]}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        prometheus = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if prometheus.redirect:
                    self.send_response(302)
                    self.send_header("Location", prometheus.redirect + self.path)
                    self.end_headers()
                    return
                header = self.headers.get("Authorization", "")
                status, document = prometheus._answer(self.path, header)
                body = json.dumps(document, separators=(",", ":")).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Tests read `asked`."""

        return Handler

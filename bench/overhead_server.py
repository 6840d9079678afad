"""A local HTTPS service that receives and counts the uploads of agents and trackers."""

from __future__ import annotations

import gzip
import json
import ssl
import subprocess
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from trimtab.wire import decode_segment, split_bodies

SEVERAL = "application/vnd.trimtab.segments"
SYSTEM_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
SYSTEM_FOLDER = Path("/etc/ssl/certs")


class SenderUploads:
    """The uploads of one sender: bytes with headers, samples, late ticks."""

    def __init__(self) -> None:
        self.requests = self.sent_bytes = self.samples = self.ticks = 0
        self.late_ms: list[float] = []
        self.series: set[str] = set()
        self.bodies: list[bytes] = []


class TakingServer:
    """Identifies senders by the first part of the path: https://127.0.0.1:PORT/<sender>/..."""

    def __init__(self, folder: Path) -> None:
        """Set the server up. Needs `openssl`, which makes its certificate."""
        self.taken: dict[str, SenderUploads] = defaultdict(SenderUploads)
        key, certificate = folder / "key.pem", folder / "certificate.pem"
        _certify(key, certificate)
        self.bundle = folder / "bundle.pem"
        roots = SYSTEM_BUNDLE.read_text() if SYSTEM_BUNDLE.exists() else ""
        self.bundle.write_text(roots + certificate.read_text())
        self.authorities = _folder(folder / "authorities", certificate)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.socket = tls.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        taken = self.taken

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = len(self.requestline) + len(str(self.headers))
                several = self.headers.get("Content-Type") == SEVERAL
                bodies = split_bodies(body) if several else [body]
                _count(taken[self.path.split("/")[1]], self.path, headers + len(body), bodies)
                said: dict[str, object] = {"directives": [], "retry_after": None, "resend": []}
                each = {"duplicate": False, "refused": []}
                more = {"answers": [{"status": 200, **each} for _ in bodies]} if several else each
                answer = json.dumps({**said, **more}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def do_PUT(self) -> None:
                self.do_POST()

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *arguments: object) -> None:
                """Prints the figures at the end."""

        return Handler


def _count(taken: SenderUploads, path: str, sent_bytes: int, bodies: list[bytes]) -> None:
    taken.requests += 1
    taken.sent_bytes += sent_bytes
    if "/segments/" in path:
        for body in bodies:
            _count_segment(taken, body)
    elif path.endswith("/log-batch"):
        (body,) = bodies
        metrics = json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)["metrics"]
        taken.samples += len(metrics)
        taken.series |= {metric["key"] for metric in metrics}


def _count_segment(taken: SenderUploads, body: bytes) -> None:
    taken.bodies.append(body)
    segment = decode_segment(body)
    for steps in segment.steps:
        columns = (steps.start_us, steps.duration_us, steps.data_wait_us, steps.samples)
        taken.samples += sum(value is not None for column in columns for value in column)
    for block in segment.blocks:
        taken.ticks += len(block.times_ms)
        taken.series |= set(block.columns)
        taken.late_ms += [v or 0 for v in block.columns.get("agent.tick_late_ms", [])]
        taken.samples += sum(
            value is not None for column in block.columns.values() for value in column
        )


def _folder(folder: Path, certificate: Path) -> Path:
    """Make a folder of the system's authorities and this one, by their hashes as OpenSSL looks for
    them.
    """
    folder.mkdir()
    for authority in SYSTEM_FOLDER.glob("????????.0"):
        (folder / authority.name).symlink_to(authority)
    command = ["openssl", "x509", "-subject_hash", "-noout", "-in", str(certificate)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    (folder / f"{found}.0").symlink_to(certificate)
    return folder


def _certify(key: Path, certificate: Path) -> None:
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=bench"]
    request += ["-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*request, *files], check=True, capture_output=True)

"""Checks whether the web server answers. Standard library only, like the supervisor."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from dataclasses import dataclass

ASK_EVERY_SECONDS = 2.0


@dataclass
class Health:
    """Asks the web server for `/healthz` now and then, and never waits for the answer."""

    host: str
    port: int
    host_header: str
    scheme: str
    asked_at: float = 0.0
    answered_at: float = 0.0
    question: socket.socket | None = None

    def ask(self, now: float) -> None:
        if self.question is not None or now - self.asked_at < ASK_EVERY_SECONDS:
            return
        self.asked_at = now
        head = f"GET /healthz HTTP/1.0\r\nHost: {self.host_header}\r\n"
        with contextlib.suppress(OSError):
            # The kernel connects, even while the process hangs.
            self.question = socket.create_connection((self.host, self.port), timeout=1)
            self.question.sendall(f"{head}X-Forwarded-Proto: {self.scheme}\r\n\r\n".encode())
            self.question.setblocking(False)

    def listen(self) -> None:
        """Note any answer: even a refusal shows that the web server works."""
        if self.question is None:
            return
        try:
            if self.question.recv(4096).startswith(b"HTTP/"):
                self.answered_at = time.monotonic()
        except BlockingIOError:
            return
        except OSError:
            pass
        self.forget()

    def forget(self) -> None:
        if self.question is not None:
            self.question.close()
        self.question = None

    def is_200(self) -> bool:
        """Return whether the web server answers as if asked from outside. Waits for at most 2 s."""
        headers = {"Host": self.host_header, "X-Forwarded-Proto": self.scheme}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=2)
        try:
            connection.request("GET", "/healthz", headers=headers)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

"""The address on which the service listens, and the one that people and agents use."""

from __future__ import annotations

import errno
import ipaddress
import socket
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

LETTING_GO_SECONDS = 2.0


class AddressError(ValueError):
    """An address that can't be used, and what to do about it."""


@dataclass(frozen=True)
class Bind:
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Bind:
        """Parse `HOST:PORT`, with an IPv6 host in brackets. Raises AddressError."""
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise AddressError(f"--bind {text}: give HOST:PORT, for example 127.0.0.1:8000")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_everywhere(self) -> bool:
        return self.host in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def default_url(self) -> str:
        """Return the URL under which this machine is reached, as far as it can know."""
        host = socket.gethostname() if self.is_everywhere else self.host
        return f"http://{Bind(host, self.port)}"

    def local_host(self) -> str:
        """Return the host under which this machine itself reaches it."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104

    def ensure_free(self) -> None:
        """Raise AddressError if nobody can listen there.

        Tries for two seconds: a service that was just stopped may still be letting go.
        """
        deadline = time.monotonic() + LETTING_GO_SECONDS
        while (error := self._error()) is not None:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise AddressError(self._explained(error))
            time.sleep(0.2)

    def _error(self) -> OSError | None:
        try:
            options = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            family, kind, _, _, address = options[0]
            with socket.socket(family, kind) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(address)
        except OSError as error:
            return error
        return None

    def _explained(self, error: OSError) -> str:
        another = f"for example: python3 manage.py up --bind {Bind(self.host, self.port + 1)}"
        if error.errno == errno.EADDRINUSE:
            return f"{self} is in use by another program. Choose another port, {another}"
        if error.errno == errno.EACCES:
            return (
                f"You lack the permission to listen on {self}. Choose a port above 1023, {another}"
            )
        return f"Can't listen on {self}: {error.strerror or error}. Check --bind."


def checked_url(text: str) -> str:
    """Return a public address, without a slash at its end. Raises AddressError."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise AddressError(f"--url {text}: give http(s)://HOST[:PORT], without a path")
    return text.rstrip("/")

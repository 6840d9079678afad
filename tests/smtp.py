"""A real mail server on loopback that can refuse, hang or disconnect on request."""

from __future__ import annotations

import email
import email.policy
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from tests.running_service import free_port

PASSWORD = "s/3:cr@t"


@dataclass(frozen=True)
class Delivery:
    """A mail that the server has accepted, byte for byte."""

    recipient: str
    body: bytes
    asked_at: float
    """The time when its recipient was asked for, by the monotonic clock. Who sent it was alive
    then, also where the server read the rest only after the sender had been killed."""
    at: float
    """The time when it was taken, before the server answered."""

    @property
    def message(self) -> EmailMessage:
        parsed = email.message_from_bytes(self.body, policy=email.policy.default)
        assert isinstance(parsed, EmailMessage)
        return parsed

    @property
    def message_id(self) -> str:
        return str(self.message["Message-ID"])


@dataclass
class Mailbox:
    """The server's treatment of each mail, and what it has accepted."""

    deliveries: list[Delivery] = field(default_factory=list)
    recipient_answer: str = "250 OK"
    answers: dict[str, str] = field(default_factory=dict)
    """Recipient -> another answer for them."""
    data_answer: str = "250 OK"
    breaks_off: bool = False
    """True if it disconnects after it has taken the mail, without an answer."""
    when_asked: Callable[[], None] = lambda: None
    """A function that is called for each recipient, before anything is taken."""
    when_taken: Callable[[], None] = lambda: None
    """A function that is called when a mail was taken, before the answer."""

    async def handle_RCPT(self, _server, _session, envelope, address, _options) -> str:  # type: ignore[no-untyped-def]
        self.when_asked()
        answer = self.answers.get(address, self.recipient_answer)
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
            envelope.asked_at = time.monotonic()
        return answer

    async def handle_DATA(self, server, _session, envelope) -> str:  # type: ignore[no-untyped-def]
        if self.data_answer.startswith("250"):
            self._take(envelope)
        if self.breaks_off:
            server.transport.abort()
        return self.data_answer

    def _take(self, envelope: Any) -> None:
        for recipient in envelope.rcpt_tos:
            body, at = bytes(envelope.content), time.monotonic()
            self.deliveries.append(Delivery(recipient, body, envelope.asked_at, at))
        self.when_taken()


@contextmanager
def mail_server(mailbox: Mailbox, port: int | None = None, **more: Any) -> Iterator[int]:
    """Serve until the block ends; yield the port."""
    number = port or free_port()
    controller = Controller(mailbox, hostname="127.0.0.1", port=number, **more)
    controller.start()
    try:
        yield number
    finally:
        controller.stop()


@contextmanager
def silent_server() -> Iterator[int]:
    """Accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def knows_password(_server, _session, _envelope, _mechanism, data) -> AuthResult:  # type: ignore[no-untyped-def]
    """Return an authenticator of aiosmtpd: one user, one password."""
    right = isinstance(data, LoginPassword) and data.password == PASSWORD.encode()
    return AuthResult(success=right, handled=False)


def certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Return a server's TLS context for `localhost` and 127.0.0.1, and the authority to trust for
    it.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    authority = folder / "authority.pem"
    authority.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return context, authority

"""The mail channel: text and HTML, headers, and the meaning of a mail server's answers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parseaddr
from smtplib import SMTPDataError, SMTPException, SMTPRecipientsRefused, SMTPResponseException
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning
from django.core.mail import EmailMultiAlternatives, get_connection
from django.template.loader import render_to_string
from django.utils.html import format_html

from webapp.accounts.models import User
from webapp.notify.channels.channel import (
    Channel,
    ChannelConnection,
    DeliveryFailure,
    Settings,
    Setup,
)
from webapp.notify.message import Message
from webapp.notify.text import one_line

HERE = ("localhost", "127.0.0.1", "::1")
MOST_SUBJECT_CHARACTERS = 200
STEPS_OF_A_DIALOGUE = 6
"""The steps of a dialogue: sender, recipient, data, body, reset, and one spare. Each can take up to
the timeout."""
# Prevents out-of-office replies (RFC 3834; Precedence is for older mail systems).
MADE_BY_A_MACHINE = {"Auto-Submitted": "auto-generated", "Precedence": "bulk"}

logger = logging.getLogger(__name__)


class MailChannel(Channel):
    id = "mail"
    title = "Mail"
    most_seconds = settings.EMAIL_TIMEOUT * STEPS_OF_A_DIALOGUE

    def setup(self) -> Setup:
        server = _server()
        if server:
            sender = settings.DEFAULT_FROM_EMAIL
            return Setup(True, f"Mail is sent through {server} from {sender}.")
        missing = (
            "No mail server is configured, so mails are only written to the worker's log. "
            "To send mail, the operator of the service sets <code>{}</code>."
        )
        return Setup(False, format_html(missing, "EMAIL_URL"))

    def checks(self) -> list[CheckMessage]:
        return [*the_mail_password_travels_under_tls(), *mail_comes_from_an_address()]

    def target(self, user: User, entered: Settings) -> str:
        return user.email

    @contextmanager
    def connect(self) -> Iterator[ChannelConnection]:
        backend = get_connection()
        try:
            backend.open()
            yield _MailConnection(backend)
        finally:
            _close(backend)

    def failure(self, error: Exception) -> DeliveryFailure:
        """Return the failure. A refused recipient or text leaves the connection open; so does an
        error on our side.
        """
        stays_open = isinstance(error, SMTPRecipientsRefused | SMTPDataError)
        return DeliveryFailure(
            _told(error),
            is_final=_is_for_good(error),
            ends_connection=isinstance(error, OSError) and not stays_open,
        )


class _MailConnection:
    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def send(self, message: Message) -> None:
        self._backend.send_messages([_composed(message)])


def the_mail_password_travels_under_tls() -> list[CheckMessage]:
    is_plain = not (settings.EMAIL_USE_TLS or settings.EMAIL_USE_SSL)
    if not settings.EMAIL_HOST_PASSWORD or settings.EMAIL_HOST in HERE or not is_plain:
        return []
    return [
        Warning(
            "EMAIL_URL sends the mail server's password unencrypted.",
            hint="Use smtp+tls:// (STARTTLS, port 587) or smtp+ssl:// (TLS, port 465).",
            id="trimtab.W002",
        )
    ]


def mail_comes_from_an_address() -> list[CheckMessage]:
    address = parseaddr(settings.DEFAULT_FROM_EMAIL)[1]
    if not settings.EMAIL_HOST or address.rpartition("@")[2] not in HERE:
        return []
    return [
        Warning(
            f"Mail is sent from {address}, which most mail servers refuse.",
            hint="Set EMAIL_FROM to an address that your mail server may send from.",
            id="trimtab.W003",
        )
    ]


def _server() -> str:
    """Return the mail server without its password; empty if mails are only logged."""
    if settings.EMAIL_FILE_PATH:
        return f"the folder {settings.EMAIL_FILE_PATH}"
    if not settings.EMAIL_HOST:
        return ""
    how = "STARTTLS" if settings.EMAIL_USE_TLS else "TLS" if settings.EMAIL_USE_SSL else "no TLS"
    return f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT} ({how})"


def _composed(message: Message) -> EmailMultiAlternatives:
    # `=?` begins an encoded word, which could inject line breaks.
    subject = one_line(message.subject.replace("=?", "= ?"), MOST_SUBJECT_CHARACTERS)
    context = message.context | {"subject": subject}
    mail = EmailMultiAlternatives(
        subject=subject,
        body=render_to_string(f"{message.template}.txt", context),
        to=[message.target],
        headers=MADE_BY_A_MACHINE | _headers(message),
    )
    mail.attach_alternative(render_to_string(f"{message.template}.html", context), "text/html")
    return mail


def _headers(message: Message) -> dict[str, str]:
    if not message.id:
        return {}
    return {
        "Message-ID": message.id,
        # RFC 8058: the mail program unsubscribes with one POST.
        "List-Unsubscribe": f"<{message.unsubscribe_url}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }


def _is_for_good(error: Exception) -> bool:
    """Return whether retrying won't help: 5xx for this recipient or text, or the mail can't be
    encoded.

    A refused sender or password is retried: once the operator corrects it, the mail is sent.
    """
    if isinstance(error, SMTPRecipientsRefused):
        return all(500 <= code < 600 for code, _ in error.recipients.values())
    if isinstance(error, SMTPDataError):
        return 500 <= error.smtp_code < 600
    return isinstance(error, ValueError)


def _told(error: Exception) -> str:
    """Return the server's answer, or else what happened."""
    if isinstance(error, SMTPRecipientsRefused):
        return "; ".join(_answer(*answer) for answer in error.recipients.values())
    if isinstance(error, SMTPResponseException):
        return _answer(error.smtp_code, error.smtp_error)
    # smtplib reports a timeout as a lost connection.
    if isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError):
        return "The mail server did not answer in time."
    if isinstance(error, SMTPException):
        return f"The mail server: {error}"
    if isinstance(error, OSError):
        return f"The mail server can't be reached: {error}"
    return f"{type(error).__name__}: {error}"


def _answer(code: int, text: bytes | str) -> str:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return f"The mail server said {code} {words}"


def _close(backend: Any) -> None:
    """Close the connection. Errors on closing don't matter: accepted mails stay accepted."""
    try:
        backend.close()
    except (OSError, SMTPException) as error:
        logger.info("mail server closed the connection", extra={"error": str(error)})


CHANNEL = MailChannel()

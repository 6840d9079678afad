"""System checks of mail: what works, but not as it should."""

from __future__ import annotations

from email.utils import parseaddr
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register

HERE = ("localhost", "127.0.0.1", "::1")


@register(Tags.security)
def the_mail_password_travels_under_tls(**_: Any) -> list[CheckMessage]:
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


@register(Tags.compatibility)
def mail_comes_from_an_address(**_: Any) -> list[CheckMessage]:
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

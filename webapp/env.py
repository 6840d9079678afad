"""Typed reading of the environment. A value that can't be understood raises; nothing is guessed.

Every variable can also be given as a file: `NAME_FILE=/run/secrets/name`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}

_MAIL_BACKENDS = "django.core.mail.backends"
# Scheme -> port, STARTTLS, TLS from the first byte. Spelled as dj-email-url and django-environ do,
# except smtps: they disagree with everybody else there, so on STARTTLS's own port it is refused.
_SMTP = {
    "smtp": (25, False, False),
    "smtp+tls": (587, True, False),
    "submission": (587, True, False),
    "smtp+ssl": (465, False, True),
    "smtps": (465, False, True),
}
_MAIL_TIMEOUT_SECONDS = 10
_ADDRESS = r"[^<>@,\s]+@[^<>@,\s]+"
_WORKSPACE = re.compile(r"\*|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ADDRESS_OF_S3 = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[^,\s]*)?")
_SENDER = re.compile(rf"{_ADDRESS}|[^<>]*<{_ADDRESS}>")


def text(name: str, default: str = "") -> str:
    """Return the variable, or the stripped content of the file named by `NAME_FILE`."""
    path = os.environ.get(f"{name}_FILE")
    if path is None:
        return os.environ.get(name, default)
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE: can't read {path}: {error.strerror}") from None


def boolean(name: str, default: bool = False) -> bool:
    value = text(name, str(default)).lower()
    if value not in _TRUE | _FALSE:
        raise ImproperlyConfigured(f"{name}={value!r} is not a boolean; use 1 or 0")
    return value in _TRUE


def integer(name: str, default: int, low: int = 0) -> int:
    value = text(name, str(default))
    try:
        number = int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={value!r} is not a whole number") from None
    if number < low:
        raise ImproperlyConfigured(f"{name}={number} is below {low}")
    return number


def choice(name: str, default: str, choices: tuple[str, ...]) -> str:
    value = text(name, default)
    if value not in choices:
        raise ImproperlyConfigured(f"{name}={value!r} is not one of {', '.join(choices)}")
    return value


def names(name: str) -> list[str]:
    """Return a comma-separated list, without empty entries."""
    return [part.strip() for part in text(name).split(",") if part.strip()]


def grants(name: str) -> list[tuple[str, str]]:
    """Return a comma-separated list of `WORKSPACE=s3://BUCKET/PREFIX`; WORKSPACE is an id, or
    `*`.
    """
    found = []
    for entry in names(name):
        workspace, _, address = entry.partition("=")
        if not _WORKSPACE.fullmatch(workspace) or not _ADDRESS_OF_S3.fullmatch(address):
            raise ImproperlyConfigured(
                f"{name}: {entry!r} is not WORKSPACE=s3://BUCKET/PREFIX, where WORKSPACE is the id "
                "of a workspace, or * for all of them"
            )
        found.append((workspace.lower(), address))
    return found


PLANNED_AFTER = "5"
"""The executions after which PostgreSQL keeps a statement's plan, as psycopg has it. A pooler that
can't do that needs `?prepare_threshold=none`."""


def database(name: str, default_path: Path) -> dict[str, object]:
    """Return Django's settings for `sqlite:///path` or
    `postgresql://user:password@host:port/name`.
    """
    url = text(name)
    if not url:
        return sqlite(default_path)
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return sqlite(Path(unquote(parts.path)))
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(f"{name}: {parts.scheme!r} is not sqlite or postgresql")
    options = {key: values[0] for key, values in parse_qs(parts.query).items()}
    planned_after = options.pop("prepare_threshold", PLANNED_AFTER)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options
        | {
            # A statement with values in its text would be another each time, parsed and planned
            # again, which often takes longer than executing it.
            "server_side_binding": True,
            "prepare_threshold": int(planned_after) if planned_after.isdecimal() else None,
        },
    }


def sqlite(path: Path) -> dict[str, object]:
    """Return the settings of an SQLite database that many processes can write to."""
    return {
        "ENGINE": "webapp.database.sqlite",
        "NAME": str(path),
        # Opening the file costs as much as some uploads, and closing it moves the WAL into the
        # file.
        "CONN_MAX_AGE": 60,
        "OPTIONS": {
            # IMMEDIATE takes the write lock at BEGIN, so `timeout` is respected: without it
            # read-then-write transactions fail with "database is locked" by the thousand.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            # FULL: an answered upload survives a power loss. docs/decisions/0006-power-loss.md
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        },
    }


@dataclass(frozen=True)
class MailServer:
    """Destination of mail: a server (`host` and what follows), a `folder`, or the log (neither)."""

    backend: str
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    uses_starttls: bool = False
    uses_tls: bool = False
    timeout_seconds: int = _MAIL_TIMEOUT_SECONDS
    folder: str | None = None


def mail(name: str) -> MailServer:
    """Parse `smtp+tls://user:password@host:port`, `file:///folder`, or `console:` (the default)."""
    try:
        parts = urlsplit(text(name) or "console:")
    except ValueError:
        raise ImproperlyConfigured(f"{name}: {_AS_IN}") from None
    if parts.scheme == "console":
        return MailServer(f"{_MAIL_BACKENDS}.console.EmailBackend")
    if parts.scheme == "file":
        return _mail_folder(name, parts)
    if parts.scheme not in _SMTP:
        allowed = ", ".join([*_SMTP, "file", "console"])
        raise ImproperlyConfigured(f"{name}: {parts.scheme!r} is not one of {allowed}")
    return _smtp(name, parts)


def _mail_folder(name: str, parts: SplitResult) -> MailServer:
    if parts.netloc or not parts.path.strip("/"):
        raise ImproperlyConfigured(f"{name}: give the folder in full, as in file:///var/mail-out")
    return MailServer(f"{_MAIL_BACKENDS}.filebased.EmailBackend", folder=unquote(parts.path))


def _smtp(name: str, parts: SplitResult) -> MailServer:
    """Parse the address of a mail server. Errors never quote it: it may hold a password."""
    default_port, uses_starttls, uses_tls = _SMTP[parts.scheme]
    port = _port(name, parts) or default_port
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not parts.hostname or parts.path.strip("/") or parts.fragment:
        raise ImproperlyConfigured(f"{name}: {_AS_IN}")
    if bool(user) != bool(password):
        raise ImproperlyConfigured(f"{name}: give user and password, or neither; {_AS_IN}")
    if parts.scheme == "smtps" and port == 587:
        raise ImproperlyConfigured(f"{name}: port 587 speaks STARTTLS; write smtp+tls, not smtps")
    return MailServer(
        f"{_MAIL_BACKENDS}.smtp.EmailBackend",
        host=parts.hostname,
        port=port,
        user=user,
        password=password,
        uses_starttls=uses_starttls,
        uses_tls=uses_tls,
        timeout_seconds=_mail_timeout_seconds(name, parts),
    )


_AS_IN = (
    "write scheme://user:password@host:port, with special characters of user and password "
    "percent-encoded"
)


def _port(name: str, parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:
        raise ImproperlyConfigured(f"{name}: the port is not a number; {_AS_IN}") from None


def _mail_timeout_seconds(name: str, parts: SplitResult) -> int:
    options = parse_qs(parts.query, keep_blank_values=True)
    (given,) = options.pop("timeout", [str(_MAIL_TIMEOUT_SECONDS)])[-1:]
    if options:
        raise ImproperlyConfigured(f"{name}: ?{min(options)} is unknown; only ?timeout=SECONDS is")
    if not given.isdecimal() or not 1 <= int(given) <= 60:
        raise ImproperlyConfigured(f"{name}: timeout={given!r} is not a number from 1 to 60")
    return int(given)


def sender(name: str, default: str) -> str:
    """Parse `Name <address>` or an address alone."""
    value = text(name) or default
    if not value.isprintable() or not _SENDER.fullmatch(value):
        raise ImproperlyConfigured(f"{name}={value!r} is not one address, as in Ada <ada@host>")
    return value

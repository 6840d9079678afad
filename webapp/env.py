"""Typed reading of the environment. A value that can't be understood raises; nothing is guessed.

Every variable can also be given as a file: `NAME_FILE=/run/secrets/name`.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}


def text(name: str, default: str = "") -> str:
    """The variable, or the stripped content of the file named by `NAME_FILE`."""
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
    """A comma-separated list, without empty entries."""
    return [part.strip() for part in text(name).split(",") if part.strip()]


def database(name: str, default_path: Path) -> dict[str, object]:
    """Django's settings for `sqlite:///path` or `postgresql://user:password@host:port/name`."""
    url = text(name)
    if not url:
        return sqlite(default_path)
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return sqlite(Path(unquote(parts.path)))
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(f"{name}: {parts.scheme!r} is not sqlite or postgresql")
    options = {key: values[0] for key, values in parse_qs(parts.query).items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }


def sqlite(path: Path) -> dict[str, object]:
    """SQLite that many processes can write to."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "OPTIONS": {
            # IMMEDIATE takes the write lock at BEGIN, so `timeout` is respected: without it
            # read-then-write transactions fail with "database is locked" by the thousand.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }

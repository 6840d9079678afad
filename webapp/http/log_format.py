"""Log lines without the secrets of addresses: links that open something for anyone who has them."""

from __future__ import annotations

import logging
import re

from pythonjsonlogger.json import JsonFormatter

_SECRET = re.compile(r"/(shared|sign-in|invitation|password/[\w-]+)/[\w-]{16,}")


def remove_secrets(line: str) -> str:
    """Return the line with the secrets of links replaced by `…`: to sign in, to join, to set a
    password, to what is shared.
    """
    return _SECRET.sub(r"/\1/…", line)


class TextLineFormatter(logging.Formatter):
    """Django's and our own lines as text, with their tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        return remove_secrets(super().format(record))


class JsonLineFormatter(JsonFormatter):
    """The same as one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return remove_secrets(super().format(record))

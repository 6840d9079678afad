"""GETs from somebody else's server: no redirects, no credentials in addresses or messages."""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import urlencode, urlsplit

TIMEOUT_SECONDS = 60.0
_PAUSES_SECONDS = (1.0, 3.0)
_LATER = (429, 502, 503, 504)
_MOST_ERROR_BYTES, _MOST_ERROR_CHARS = 65_536, 300


class FetchError(Exception):
    """Raised when the server gave no answer that can be used. The message says why and what to
    do.
    """


class AnswerTooLargeError(FetchError):
    """Raised when the answer is larger than asked for."""


def authorization(environment: Mapping[str, str], prefix: str) -> str:
    """Return the header for a token or a user name and password in variables; empty if none is
    set.
    """
    token = environment.get(f"{prefix}_TOKEN", "").strip()
    if token:
        return f"Bearer {token}"
    user = environment.get(f"{prefix}_USERNAME", "")
    password = environment.get(f"{prefix}_PASSWORD", "")
    if not user and not password:
        return ""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


class Server:
    """One server, below one path."""

    def __init__(self, url: str, header: str, prefix: str) -> None:
        """Prepare requests.

        Args:
            header: for Authorization; empty: none.
            prefix: of the variables that hold the credentials, for messages.

        Raises:
            FetchError: not a URL, or one with credentials in it.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise FetchError("not a URL. Use http://HOST or https://HOST.")
        if parts.username or parts.password:
            raise FetchError(
                f"credentials in a URL show in process lists. Set {prefix}_TOKEN, or "
                f"{prefix}_USERNAME and {prefix}_PASSWORD."
            )
        self.host = parts.hostname
        self._base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._header, self._prefix = header, prefix
        self._opener = urllib.request.build_opener(_NoRedirects)

    def get(self, path: str, query: Mapping[str, str], most_bytes: int) -> bytes:
        """Return the body of a 200.

        Raises:
            TooLargeError
            FetchError: no such answer, tried again where that may help.
        """
        for pause_seconds in (*_PAUSES_SECONDS, None):
            try:
                return self._get(path, query, most_bytes)
            except urllib.error.HTTPError as error:
                with error:
                    problem = self._problem(error)
                if error.code not in _LATER or pause_seconds is None:
                    raise FetchError(problem) from None
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", None) or error or type(error).__name__
                if pause_seconds is None:
                    raise FetchError(f"{self.host} doesn't answer: {reason}") from None
            time.sleep(pause_seconds)
        raise AssertionError("unreachable")

    def document(self, path: str, query: Mapping[str, str], most_bytes: int) -> dict[str, Any]:
        """Fetch `path` and parse it as a JSON object."""
        body = self.get(path, query, most_bytes)
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise FetchError(f"{self.host} answers no JSON at {path}. Check the address.")
        return document

    def _get(self, path: str, query: Mapping[str, str], most_bytes: int) -> bytes:
        # Its scheme is http or https, see __init__.
        request = urllib.request.Request(f"{self._base}/{path}?{urlencode(query)}")  # noqa: S310
        request.add_header("Accept", "application/json")
        if self._header:
            request.add_unredirected_header("Authorization", self._header)
        with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            body: bytes = answer.read(most_bytes + 1)
        if len(body) > most_bytes:
            raise AnswerTooLargeError(f"{self.host} answers more than {most_bytes // 2**20} MiB")
        return body

    def _problem(self, error: urllib.error.HTTPError) -> str:
        said = f"{self.host} answers {error.code} {error.reason}"
        if 300 <= error.code < 400:
            target = str(error.headers.get("Location", "")).partition("?")[0]
            return f"{said} to {target[:200]}. Use that address, if it is right."
        if error.code in (401, 403):
            name = self._prefix
            return f"{said}. Set {name}_TOKEN, or {name}_USERNAME and {name}_PASSWORD."
        try:
            document = json.loads(error.read(_MOST_ERROR_BYTES))
            detail = document.get("error") or document.get("message") or ""
        except (ValueError, RecursionError, AttributeError, OSError):
            detail = ""
        return f"{said}: {str(detail)[:_MOST_ERROR_CHARS]}" if detail else said


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirects: another host must not get the token."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None

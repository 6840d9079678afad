"""One kept-alive HTTP(S) connection to the service, and the meaning of its responses."""

from __future__ import annotations

import enum
import http.client
import io
import json
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from trimtab import trust
from trimtab.identity import ServiceAccess
from trimtab.wire import PROBLEM_TYPE, is_final, is_import_quota

_MOST_ANSWER_BYTES = 1024 * 1024


class UploadVerdict(enum.Enum):
    TAKEN = "taken"
    REFUSED = "refused"
    """The verdict on an upload that the service can never accept: set it apart and go on."""
    TOO_LARGE = "too large"
    """The verdict on an upload that is too large for the service or a proxy: send it in parts."""
    NOT_ALLOWED = "not allowed"
    POSTPONED = "postponed"
    """The verdict on an upload with a problem that may go away: try it again later, and send others
    meanwhile."""
    LATER = "later"


@dataclass(frozen=True)
class ServiceAnswer:
    """A response; status 0 means that the connection failed."""

    status: int
    problem: str = ""
    retry_after_seconds: float | None = None
    document: dict[str, Any] = field(default_factory=dict)
    content_type: str = ""
    content: bytes = b""
    """The response as it came."""

    @property
    def verdict(self) -> UploadVerdict:
        """Return the verdict. It is TAKEN or REFUSED only if the service itself says so: proxies
        answer, too.
        """
        if self.status == 413:
            return UploadVerdict.TOO_LARGE
        if self._is_receipt:
            return UploadVerdict.TAKEN
        if not self.is_problem:
            return UploadVerdict.LATER
        if self.status in (401, 403):
            return UploadVerdict.NOT_ALLOWED
        if self.status in (400, 409) and is_final(self.document.get("type")):
            return UploadVerdict.REFUSED
        if self.status == 429 and is_import_quota(self.document.get("type")):
            return UploadVerdict.POSTPONED
        if 400 <= self.status < 500 and self.status not in (408, 425, 429):
            return UploadVerdict.POSTPONED
        return UploadVerdict.LATER

    @property
    def is_problem(self) -> bool:
        """Return whether this is an error in the service's own form; earlier versions gave it the
        type about:blank.
        """
        return self.content_type == PROBLEM_TYPE and bool(self.document)

    def answers_by_segment(self, count: int) -> list[ServiceAnswer]:
        """Return the answer to each of `count` segments; empty if the service answers no such
        thing.

        Pauses and directives are in this answer itself.
        """
        rows = self.document.get("answers")
        if not self._is_of_service or not isinstance(rows, list) or len(rows) != count:
            return []
        return [_of_row(row if isinstance(row, dict) else {}) for row in rows]

    @property
    def _is_receipt(self) -> bool:
        return self._is_of_service and isinstance(self.document.get("duplicate"), bool)

    @property
    def _is_of_service(self) -> bool:
        """Return whether the service answered. A sign-in page is a 200, too; even one in JSON
        doesn't have this field.
        """
        is_json = self.status == 200 and self.content_type == "application/json"
        return is_json and isinstance(self.document.get("server_time_ns"), int)


class ServiceConnection:
    """Sends one request at a time. Never raises for errors of the network or the service."""

    def __init__(
        self,
        server: ServiceAccess,
        timeout_seconds: float = 10.0,
        most_answer_bytes: int = _MOST_ANSWER_BYTES,
    ) -> None:
        parts = urlsplit(server.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{server.url!r} is not a URL. Use http://HOST or https://HOST.")
        self._base = parts.path.rstrip("/")
        self._token = server.token
        self._most_answer_bytes = most_answer_bytes
        self._place = parts.hostname, parts.port, timeout_seconds
        self._may_trust_more = False
        if parts.scheme == "https":
            few = trust.trust_folder()
            self._may_trust_more = few is not None
            self._http = self._secured(few or trust.trust_bundle())
        else:
            self._http = http.client.HTTPConnection(*self._place[:2], timeout=timeout_seconds)

    def _secured(self, context: ssl.SSLContext) -> http.client.HTTPConnection:
        host, port, seconds = self._place
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=context)

    def put(
        self, path: str, body: bytes, content_type: str, more: Mapping[str, str] | None = None
    ) -> ServiceAnswer:
        """PUT a gzip'd body. A kept connection that the server has closed is reopened once."""
        headers = {
            **(more or {}),
            "Content-Encoding": "gzip",
            "Content-Type": content_type,
            "X-Trimtab-Sent-At": str(time.time_ns()),
        }
        return self._sent("PUT", path, lambda: io.BytesIO(body), len(body), headers)

    def post(
        self, path: str, body: bytes, content_type: str, more: Mapping[str, str]
    ) -> ServiceAnswer:
        """POST a body that can be sent twice, as `put` does."""
        headers = {**more, "Content-Type": content_type, "X-Trimtab-Sent-At": str(time.time_ns())}
        return self._sent("POST", path, lambda: io.BytesIO(body), len(body), headers)

    def put_file(self, path: str, file: Path, headers: Mapping[str, str]) -> ServiceAnswer:
        """PUT a file in pieces, so that it is never in memory as a whole."""
        try:
            return self._sent("PUT", path, lambda: file.open("rb"), file.stat().st_size, headers)
        except OSError as error:
            return ServiceAnswer(0, f"{type(error).__name__}: {error}")

    def get(self, path: str) -> ServiceAnswer:
        return self._sent("GET", path, io.BytesIO, 0, {})

    def _sent(
        self,
        method: str,
        path: str,
        open_body: Callable[[], BinaryIO],
        length: int,
        headers: Mapping[str, str],
    ) -> ServiceAnswer:
        kept = self._http.sock is not None
        try:
            with open_body() as body:
                return self._send(method, path, body, length, headers)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as error:
            self._http.close()
            if not kept:
                return ServiceAnswer(0, f"{type(error).__name__}: {error}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._http.close()
            if not isinstance(error, ssl.SSLCertVerificationError) or not self._may_trust_more:
                return ServiceAnswer(0, f"{type(error).__name__}: {error}")
            self._may_trust_more = False
            self._http = self._secured(trust.trust_bundle())
        return self._sent(method, path, open_body, length, headers)

    def _send(
        self, method: str, path: str, body: BinaryIO, length: int, headers: Mapping[str, str]
    ) -> ServiceAnswer:
        more = {"Authorization": f"Bearer {self._token}"}
        if method != "GET":
            more["Content-Length"] = str(length)
        address = f"{self._base}/api/v1/{path}"
        self._http.request(method, address, body if length else None, {**more, **headers})
        response = self._http.getresponse()
        content = response.read(self._most_answer_bytes)
        if response.length or response.will_close:
            self._http.close()
        return _answer(response, content)


def _answer(response: http.client.HTTPResponse, content: bytes) -> ServiceAnswer:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        document = {}
    return ServiceAnswer(
        response.status,
        _problem(response, document),
        _retry_after_seconds(response, document),
        document,
        response.headers.get_content_type(),
        content,
    )


def _of_row(row: dict[str, Any]) -> ServiceAnswer:
    """Return the answer to one segment, as if it had been sent by itself."""
    status, problem = row.get("status"), row.get("problem")
    if status == 200:
        receipt = {"duplicate": row.get("duplicate"), "server_time_ns": 0}
        return ServiceAnswer(200, document=receipt, content_type="application/json")
    if not isinstance(status, int) or not isinstance(problem, dict):
        return ServiceAnswer(0, "an answer that isn't the service's")
    words = f"{status} {http.client.responses.get(status, '')}: {str(problem.get('detail'))[:300]}"
    return ServiceAnswer(status, words, _asked_seconds(row), problem, PROBLEM_TYPE)


def _problem(response: http.client.HTTPResponse, document: dict[str, Any]) -> str:
    """Return the answer's problem in words. A redirect's target is only named, never followed: it
    must not get the token.
    """
    problem = f"{response.status} {response.reason}"
    if 300 <= response.status < 400:
        target = response.getheader("Location", "").partition("?")[0]
        return f"{problem} to {target}"[:300]
    if detail := document.get("detail") or document.get("title"):
        return f"{problem}: {str(detail)[:300]}"
    if not document:
        return f"{problem}, not from Trimtab ({response.headers.get_content_type()})"
    return problem


def _retry_after_seconds(
    response: http.client.HTTPResponse, document: dict[str, Any]
) -> float | None:
    """Return the time to wait from the body or the header, in seconds, at most an hour."""
    if asked := _asked_seconds(document):
        return asked
    header = response.getheader("Retry-After", "")
    if header.isdecimal():
        return min(float(header), 3600.0)
    with suppress(ValueError, TypeError):
        until = parsedate_to_datetime(header).timestamp() - time.time()
        return min(max(until, 0.0), 3600.0)
    return None


def _asked_seconds(document: dict[str, Any]) -> float | None:
    asked = document.get("retry_after")
    return min(float(asked), 3600.0) if isinstance(asked, (int, float)) and asked > 0 else None

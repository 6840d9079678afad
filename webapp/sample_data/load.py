"""Sends the simulated runs to a service as an agent would, through its API."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from trimtab.wire import Segment, encode_declaration, encode_segment

from webapp.sample_data.histories import WORKSPACE, sample_runs
from webapp.sample_data.simulation import SimulatedRun

DECLARATION_TYPE = "application/vnd.trimtab.declaration+json"
SEGMENT_TYPE = "application/vnd.trimtab.segment+json"
TIMEOUT_SECONDS = 60
PAUSES_SECONDS = (1, 3)
BUSY = (429, 502, 503)

Progress = Callable[[float], None]


class SampleUploadError(RuntimeError):
    """Raised when the service refused an upload. The message says which, and the answer."""


@dataclass(frozen=True)
class LoadResult:
    runs: int
    segments: int
    duplicates: int
    """The number of segments that the service had already."""


@dataclass(frozen=True)
class SampleUpload:
    path: str
    content_type: str
    body: bytes


def load(
    url: str,
    token: str,
    now: datetime,
    progress: Progress = lambda share: None,
    workspace: str = WORKSPACE,
) -> LoadResult:
    """Upload every simulated run; loading again on the same `now` adds nothing.

    Args:
        url: of the service, with http or https.
        token: a bearer token with the scope `ingest`.
        now: the day on which the history ends. Pass the same day to resume an interrupted load.
        progress: called with the share that is done, from 0 to 1.

    Raises:
        LoadError: the service refused an upload or can't be reached.
    """
    runs = sample_runs(now, workspace)
    uploads = [upload for run in runs for upload in uploads_of(run)]
    connection = LoadConnection(url, token)
    duplicates = 0
    for done, upload in enumerate(uploads, start=1):
        duplicates += bool(connection.put(upload).get("duplicate"))
        progress(done / len(uploads))
    connection.close()
    segments = sum(upload.content_type == SEGMENT_TYPE for upload in uploads)
    return LoadResult(len(runs), segments, duplicates)


def uploads_of(run: SimulatedRun) -> Iterator[SampleUpload]:
    """Yield the declarations first, then the segments in order."""
    yield from declarations_of(run)
    for segment in run.segments():
        yield upload_of(segment)


def declarations_of(run: SimulatedRun) -> Iterator[SampleUpload]:
    for declaration in run.declarations():
        body = encode_declaration(declaration)
        yield SampleUpload(f"/api/v1/runs/{run.run_id}", DECLARATION_TYPE, body)


def upload_of(segment: Segment) -> SampleUpload:
    place = f"/api/v1/runs/{segment.run_id}/segments/{segment.clock.session_id}/{segment.seq}"
    return SampleUpload(place, SEGMENT_TYPE, encode_segment(segment))


class LoadConnection:
    """One kept-alive connection to the service."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_SECONDS)
        self._prefix = parts.path.rstrip("/")
        self._token = token

    def put(self, upload: SampleUpload) -> dict[str, Any]:
        """Send an upload. Returns the answer: `duplicate` if the service had it already."""
        status, text = self._put_patiently(upload)
        if not 200 <= status < 300:
            raise SampleUploadError(f"PUT {upload.path} was answered {status}: {text[:500]}")
        answer: dict[str, Any] = json.loads(text or "{}")
        return answer

    def close(self) -> None:
        self._connection.close()

    def _put_patiently(self, upload: SampleUpload) -> tuple[int, str]:
        """Send an upload. A service that is busy or just starting gets a few seconds."""
        for pause_seconds in PAUSES_SECONDS:
            with contextlib.suppress(SampleUploadError):
                status, text = self._put_once(upload)
                if status not in BUSY:
                    return status, text
            time.sleep(pause_seconds)
        return self._put_once(upload)

    def _put_once(self, upload: SampleUpload) -> tuple[int, str]:
        path, headers = self._prefix + upload.path, self._headers(upload)
        try:
            self._connection.request("PUT", path, upload.body, headers)
            answer = self._connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise SampleUploadError(f"PUT {upload.path} failed: {error}") from error

    def _headers(self, upload: SampleUpload) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self._token}",
            "Content-Encoding": "gzip",
            "Content-Type": upload.content_type,
            # The real time, because it measures this machine's clock, not the run's date.
            "X-Trimtab-Sent-At": str(time.time_ns()),
        }

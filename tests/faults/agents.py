"""Agents as the wire describes them: they send until the service itself has answered."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import UUID

import requests
from trimtab.wire import Block, encode_segment

from tests.service.uploads import SEGMENT_MS, FakeAgent

TICK_MS = 500
TICKS = SEGMENT_MS // TICK_MS
NUMBERED = "proof.tick_count"
"""A series in which each sample is its own number: what is lost or doubled has a name."""
ANSWER_SECONDS = 5
PATIENCE_SECONDS = 180
TRY_AGAIN = {401, 403, 408, 425, 429}


class GivenUpError(Exception):
    """The service refused a valid upload, or never accepted it."""


@dataclass
class Told:
    """The answers that agents got, all together."""

    answers: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, what: str) -> None:
        with self._lock:
            self.answers[what] += 1


@dataclass
class Wire:
    """An HTTP connection that repeats each upload until it is acknowledged."""

    url: str
    told: Told

    @cached_property
    def _session(self) -> requests.Session:
        return requests.Session()

    def put(self, path: str, body: bytes, content_type: str, headers: dict[str, str]) -> Any:
        """Return the service's receipt. Raises GivenUpError."""
        return self._sent("PUT", path, body, headers | {"Content-Type": content_type})

    def post(self, path: str, body: bytes, content_type: str, headers: dict[str, str]) -> Any:
        """Return the receipt of several segments, all of which are accepted. Raises
        GivenUpError.
        """
        return self._sent("POST", path, body, headers | {"Content-Type": content_type})

    def _sent(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Any:
        until = time.monotonic() + PATIENCE_SECONDS
        pause_seconds = 0.05
        while time.monotonic() < until:
            receipt, retry_after_seconds = self._tried(method, path, body, headers)
            if receipt is not None:
                return receipt
            time.sleep(min(max(pause_seconds, retry_after_seconds), 5.0))
            pause_seconds = min(pause_seconds * 2, 1.0)
        raise GivenUpError(f"not accepted within {PATIENCE_SECONDS} s: {path}")

    def _tried(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[dict[str, Any] | None, float]:
        try:
            answer = self._session.request(
                method, self.url + path, data=body, headers=headers, timeout=ANSWER_SECONDS
            )
        except requests.RequestException as error:
            self.told.add(type(error).__name__)
            return None, 0.0
        document = _document(answer)
        if answer.ok and "duplicate" in document:
            self.told.add("duplicate" if document["duplicate"] else "taken")
            return document, 0.0
        if answer.ok and "answers" in document:
            return self._of_several(document, path)
        is_ours = answer.headers.get("Content-Type", "") == "application/problem+json"
        self.told.add(f"{'' if is_ours else 'a proxy: '}{answer.status_code}")
        if is_ours and _is_final(answer.status_code):
            raise GivenUpError(f"{answer.status_code} to {path}: {answer.text[:500]}")
        return None, float(document.get("retry_after") or 0.0)

    def _of_several(
        self, document: dict[str, Any], path: str
    ) -> tuple[dict[str, Any] | None, float]:
        """Return the answer, or None unless all were accepted: the same is then sent again, and
        those that were are duplicates.
        """
        rows = document["answers"]
        for row in rows:
            self.told.add(f"together: {row['status']}")
            if _is_final(row["status"]):
                raise GivenUpError(f"{row} to {path}")
        if all(row["status"] == 200 for row in rows):
            return document, 0.0
        return None, max(row["retry_after"] or 0.0 for row in rows)


def _is_final(status: int) -> bool:
    return 400 <= status < 500 and status not in TRY_AGAIN


def _document(answer: requests.Response) -> dict[str, Any]:
    if not answer.headers.get("Content-Type", "").startswith("application/json"):
        return {}
    try:
        document = answer.json()
    except requests.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


@dataclass
class NumberedAgent(FakeAgent):
    """One session of one node, whose samples are numbered; it remembers what was acknowledged."""

    count: int = 3
    """Segments of the session."""
    acknowledged: set[int] = field(default_factory=set)

    @cached_property
    def bodies(self) -> list[bytes]:
        return [encode_segment(segment) for segment in self.segments(self.count)]

    @cached_property
    def artefact(self) -> bytes:
        return hashlib.sha256(self.session_id.bytes).digest() * 300

    @property
    def samples(self) -> int:
        """Return the number of acknowledged samples of all series."""
        return len(self.acknowledged) * TICKS * len(self._block(0).columns)

    @property
    def ticks(self) -> set[int]:
        """Return the numbers of the acknowledged samples."""
        return {seq * TICKS + i for seq in self.acknowledged for i in range(TICKS)}

    def upload(self, seq: int) -> None:
        """Upload a segment. Raises GivenUpError. The service may ask for others again."""
        self._acknowledge([seq], self.put_body(seq, self.bodies[seq]))

    def upload_together(self, numbers: Sequence[int]) -> None:
        """Upload segments in one request. Raises GivenUpError."""
        self._acknowledge(numbers, self.post([self.bodies[seq] for seq in numbers]))

    def _acknowledge(self, numbers: Sequence[int], receipt: dict[str, Any]) -> None:
        self.acknowledged.update(numbers)
        for session, again in receipt.get("resend") or ():
            if UUID(session) == self.session_id:
                self.put_body(again, self.bodies[again])

    def _block(self, seq: int) -> Block:
        block = super()._block(seq)
        block.columns[NUMBERED] = [seq * TICKS + i for i in range(TICKS)]
        return block

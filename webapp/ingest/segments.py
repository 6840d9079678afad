"""Segments in requests: what they must be, and what is answered for each of several."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.http import HttpResponse, JsonResponse
from trimtab.wire import LIMITS, Limits, Segment, unpacked_bytes

from advisor.store import segment_bodies
from webapp.accounts.models import Token
from webapp.directives import delivery
from webapp.http import trouble
from webapp.http.problems import Problem, server_error
from webapp.ingest import resend, uploaders
from webapp.ingest.bodies import Headers, check_match, decode_body
from webapp.ingest.upload import Upload
from webapp.ingest.write import Outcome, SegmentReceipt, write_segments

logger = logging.getLogger(__name__)


def read_segment(
    run_id: UUID,
    session_id: UUID,
    seq: int,
    headers: Headers,
    body: bytes,
    token: Token,
    limits: Limits = LIMITS,
) -> Upload:
    """Return the segment that was sent to an address. Raises Problem 400 or 413."""
    segment = decode_body(partial(segment_bodies.decode_body, limits=limits), body)
    check_match("seq", seq, segment.seq)
    check_address(segment, run_id, session_id)
    return Upload(token.workspace, segment, body, sent_at_ns(headers), token)


def check_address(segment: Segment, run_id: UUID, session_id: UUID) -> None:
    """Check a segment. Raises Problem 400 if it is of another run or session, or nothing of it
    would be kept.
    """
    check_match("run_id", run_id, segment.run_id)
    check_match("session_id", session_id, segment.clock.session_id)
    _must_hold_something(segment)


def sent_at_ns(headers: Headers) -> int | None:
    """Return when the segment was sent by the agent's clock, or None if the agent doesn't say."""
    text = headers.get("x-trimtab-sent-at") or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def answer_segment(
    upload: Upload, stored: SegmentReceipt, token: Token, headers: Headers
) -> HttpResponse:
    """Answer one segment. The schema isn't used, because nearly all requests come here;
    `tests/service/test_openapi.py` compares the answer with it.
    """
    uploaders.remember_uploader(token, upload.run_id)
    asked = delivery.pending_directives(upload.session_id) if stored.may_be_asked else []
    again = resend.find_missing_segments(upload, headers.get(resend.HEADER) or "")
    fields = answer_fields(**receipt_fields(upload, stored), directives=asked, resend=again)
    return JsonResponse(fields)


def answer_fields(**more: Any) -> dict[str, Any]:
    """Return the fields of an answer to any upload, with `more` over the defaults."""
    return {
        "server_time_ns": time.time_ns(),
        "retry_after": None,
        "directives": [],
        "resend": [],
        **more,
    }


def receipt_fields(upload: Upload, stored: SegmentReceipt) -> dict[str, Any]:
    refused = [{"name": r.name, "reason": r.reason} for r in upload.segment.refused]
    return {"duplicate": stored.is_duplicate, "refused": refused}


class Batch:
    """Several segments of one session, each of which is stored or refused on its own."""

    def __init__(self, bodies: Sequence[bytes], sent_at_ns: int | None) -> None:
        self._bodies, self._sent_at_ns = bodies, sent_at_ns
        self._uploads: dict[int, Upload] = {}
        self._outcomes: dict[int, Outcome] = {}

    def read(self, run_id: UUID, session_id: UUID, token: Token) -> None:
        """Decode all of them. Together they may become as large as one alone."""
        left_bytes = LIMITS.document_bytes
        for place, body in enumerate(self._bodies):
            is_valid = False
            try:
                limits = replace(LIMITS, document_bytes=left_bytes)
                segment = decode_body(partial(segment_bodies.decode_body, limits=limits), body)
                is_valid = True
                check_address(segment, run_id, session_id)
                upload = Upload(token.workspace, segment, body, self._sent_at_ns, token)
                self._uploads[place] = upload
            except Problem as problem:
                self._outcomes[place] = problem
            left_bytes = max(0, left_bytes - unpacked_bytes(body, is_valid))

    def write(self) -> None:
        """Make those that could be read durable."""
        outcomes = write_segments([*self._uploads.values()])
        self._outcomes |= dict(zip(self._uploads, outcomes, strict=True))

    @property
    def stored(self) -> list[Upload]:
        return [self._uploads[place] for place, _ in self._stored()]

    @property
    def may_be_asked(self) -> bool:
        return any(stored.may_be_asked for _, stored in self._stored())

    @property
    def answers(self) -> list[dict[str, Any]]:
        """Return one answer for each body, in their order."""
        return [self._answer(place) for place in range(len(self._bodies))]

    def _stored(self) -> Iterator[tuple[int, SegmentReceipt]]:
        for place, outcome in self._outcomes.items():
            if isinstance(outcome, SegmentReceipt):
                yield place, outcome

    def _answer(self, place: int) -> dict[str, Any]:
        outcome = self._outcomes[place]
        if isinstance(outcome, SegmentReceipt):
            return {"status": 200, **receipt_fields(self._uploads[place], outcome)}
        found = problem_from(outcome)
        retry_after = found.headers.get("Retry-After")
        seconds = float(retry_after) if retry_after else None
        return {"status": found.status, "problem": found.document, "retry_after": seconds}


def problem_from(error: Exception) -> Problem:
    """Return the problem to answer for a segment that can't be stored."""
    if isinstance(error, Problem):
        return error
    if passing := trouble.problem(error):
        return passing
    logger.error("a segment can't be stored", exc_info=error)
    return server_error()


def _must_hold_something(segment: Segment) -> None:
    """Refuse a segment of which nothing would be kept. One bad part costs only itself."""
    kept = [*segment.steps, *segment.step_summaries, *segment.events]
    kept += [block for block in segment.blocks if block.columns]
    if segment.refused and not kept:
        first = segment.refused[0]
        fix = "Correct this part: the segment has no other content."
        detail = f"Refused: {first.reason}."
        raise Problem(400, detail, first.name, fix, kind="invalid-upload")

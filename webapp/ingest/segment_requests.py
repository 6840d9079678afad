"""Uploads of segments, many at a time: what `routes.put_segment` does for one.

They are decoded here and written together. Each of those that take longer (with facts of the
session, a large document, or a session's objects to list) is done in a thread of its own, and isn't
kept decoded until then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar
from uuid import UUID

from django.http import HttpResponse
from trimtab.wire import LIMITS, Limits

from webapp.accounts.models import Token
from webapp.http.gathered import AnswerOrWork, WholeRequest
from webapp.http.problems import Problem, no_token
from webapp.ingest import bodies, resend, segments
from webapp.ingest.routes import agents
from webapp.ingest.upload import Upload
from webapp.ingest.write import Outcome, write_segments

MOST_DOCUMENT_BYTES = 128 * 1024
"""The largest document of a segment that is decoded with others. For a node with 100 series it is
15 kB."""
_SMALL = replace(LIMITS, document_bytes=MOST_DOCUMENT_BYTES)
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_Result = TypeVar("_Result")
_ADDRESS = re.compile(rf"/api/v1/runs/({_UUID})/segments/({_UUID})/([0-9]{{1,10}})")


@dataclass(frozen=True)
class _Request:
    asked: WholeRequest
    token: Token
    run_id: UUID
    session_id: UUID
    seq: int

    def read(self, limits: Limits = LIMITS) -> Upload:
        place = self.run_id, self.session_id, self.seq
        asked = self.asked
        return segments.read_segment(*place, asked.headers, asked.body, self.token, limits)

    def answer(self, upload: Upload, outcome: Outcome) -> HttpResponse:
        if isinstance(outcome, Exception):
            return segments.problem_from(outcome).response()
        return segments.answer_segment(upload, outcome, self.token, self.asked.headers)

    @property
    def is_checked(self) -> bool:
        """The session's stored segments are listed before it is answered."""
        return resend.is_check_due(self.session_id, self.asked.headers.get(resend.HEADER) or "")


class SegmentRequests:
    """The operation that the web server gathers."""

    def takes(self, method: str, target: str) -> bool:
        return method == "PUT" and _ADDRESS.fullmatch(target) is not None

    def answers(self, asked: Sequence[WholeRequest]) -> list[AnswerOrWork]:
        answers: dict[int, AnswerOrWork] = {}
        read: dict[int, tuple[_Request, Upload]] = {}
        for place, each in enumerate(asked):
            one = _or_problem(partial(_read, each))
            if isinstance(one, tuple):
                read[place] = one
            else:
                answers[place] = one
        outcomes = write_segments([upload for _, upload in read.values()])
        for (place, (request, upload)), outcome in zip(read.items(), outcomes, strict=True):
            answers[place] = _or_problem(partial(request.answer, upload, outcome))
        return [answers[place] for place in range(len(asked))]


def _read(asked: WholeRequest) -> tuple[_Request, Upload] | AnswerOrWork:
    """Return a segment to write with others, or the answer to another one. Raises Problem."""
    request = _request(asked)
    if request.is_checked:
        return _alone(request)
    try:
        upload = request.read(_SMALL)
    except Problem as problem:
        if problem.status == 413:
            return _alone(request)
        raise
    return _alone(request) if upload.has_facts else (request, upload)


def _request(asked: WholeRequest) -> _Request:
    """Check a request. Raises Problem 401, 403, 411, 413, 415 or 429."""
    token = agents.token_of(asked.address, asked.headers.get("authorization") or "")
    if token is None:
        raise no_token()
    bodies.check_headers(asked.headers)
    found = _ADDRESS.fullmatch(asked.target)
    assert found is not None  # noqa: S101 - it is what `takes` takes
    run_id, session_id, seq = found.groups()
    return _Request(asked, token, UUID(run_id), UUID(session_id), int(seq))


def _alone(request: _Request) -> Callable[[], HttpResponse]:
    def answer() -> HttpResponse:
        upload = request.read()
        return request.answer(upload, write_segments([upload])[0])

    return partial(_or_problem, answer)


def _or_problem(work: Callable[[], _Result]) -> _Result | HttpResponse:
    """Return the result of `work`; an exception becomes an answer."""
    try:
        return work()
    except Exception as error:
        return segments.problem_from(error).response()

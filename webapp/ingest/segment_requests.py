"""Uploads of segments, many at a time: what `routes.put_segment` does for one.

Those that go the short way share what they can. Each of the others, which may wait for a lock or
list a session's objects, is done in a thread of its own, and isn't kept decoded until then.
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
from webapp.http.gathered import Answered, Asked
from webapp.http.problems import Problem, no_token
from webapp.ingest import accept, bodies, resend, segments
from webapp.ingest.accept import Accepted, Begun
from webapp.ingest.routes import agents
from webapp.ingest.upload import Upload

MOST_DOCUMENT_BYTES = 128 * 1024
"""The largest document of a segment that is decoded with others. For a node with 100 series it is
15 kB."""
_SMALL = replace(LIMITS, document_bytes=MOST_DOCUMENT_BYTES)
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_Result = TypeVar("_Result")
_ADDRESS = re.compile(rf"/api/v1/runs/({_UUID})/segments/({_UUID})/([0-9]{{1,10}})")


@dataclass(frozen=True)
class _Request:
    asked: Asked
    token: Token
    run_id: UUID
    session_id: UUID
    seq: int

    def uploaded(self, limits: Limits = LIMITS) -> Upload:
        place = self.run_id, self.session_id, self.seq
        return segments.uploaded(*place, self.asked.headers, self.asked.body, limits)

    def answered(self, upload: Upload, accepted: Accepted) -> HttpResponse:
        return segments.answered(upload, accepted, self.token, self.asked.headers)

    @property
    def is_checked(self) -> bool:
        """The session's stored segments are listed before it is answered."""
        return resend.is_due(self.session_id, self.asked.headers.get(resend.HEADER) or "")


_Begun = tuple[_Request, Begun]


class SegmentRequests:
    """The operation that the web server gathers."""

    def takes(self, method: str, target: str) -> bool:
        return method == "PUT" and _ADDRESS.fullmatch(target) is not None

    def answers(self, asked: Sequence[Asked]) -> list[Answered]:
        answers: dict[int, Answered] = {}
        begun: dict[int, _Begun] = {}
        for place, each in enumerate(asked):
            one = _or_problem(partial(_begun, each))
            if isinstance(one, tuple):
                begun[place] = one
            else:
                answers[place] = one
        rows = accept.complete([each for _, each in begun.values()])
        for (place, (request, its)), row in zip(begun.items(), rows, strict=True):
            answers[place] = _or_problem(partial(_finished, request, its, row))
        return [answers[place] for place in range(len(asked))]


def _begun(asked: Asked) -> _Begun | Answered:
    """Return a segment that goes the short way, or the answer to another one. Raises Problem."""
    request = _request(asked)
    if request.is_checked:
        return _alone(request)
    try:
        upload = request.uploaded(_SMALL)
    except Problem as problem:
        if problem.status == 413:
            return _alone(request)
        raise
    begun = accept.begin(request.token.workspace, upload, request.token)
    return _alone(request) if begun is None else (request, begun)


def _request(asked: Asked) -> _Request:
    """Check a request. Raises Problem 401, 403, 411, 413, 415 or 429."""
    token = agents.token_of(asked.address, asked.headers.get("authorization") or "")
    if token is None:
        raise no_token()
    bodies.check_headers(asked.headers)
    found = _ADDRESS.fullmatch(asked.target)
    assert found is not None  # noqa: S101 - it is what `takes` takes
    run_id, session_id, seq = found.groups()
    return _Request(asked, token, UUID(run_id), UUID(session_id), int(seq))


def _finished(request: _Request, begun: Begun, row: accept.Row) -> Answered:
    if accept.is_finished(row) or isinstance(row, Exception):
        return request.answered(begun.upload, accept.finish(begun, row))
    begun.counted.take_back()
    return _alone(request, is_written=True)


def _whole(request: _Request, is_written: bool = False) -> HttpResponse:
    """Answer one segment alone. Its object may have been written, and no row."""
    upload, token = request.uploaded(), request.token
    taking = accept.after_all if is_written else accept.segment
    return request.answered(upload, taking(token.workspace, upload, token))


def _alone(request: _Request, is_written: bool = False) -> Callable[[], HttpResponse]:
    return partial(_or_problem, partial(_whole, request, is_written))


def _or_problem(work: Callable[[], _Result]) -> _Result | HttpResponse:
    """Return the result of `work`; an exception becomes an answer."""
    try:
        return work()
    except Exception as error:
        return segments.problem(error).response()

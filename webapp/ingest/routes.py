"""The upload API: declarations and segments of agents."""

from __future__ import annotations

import time
from functools import partial
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Path, Router
from trimtab.wire import decode_declaration, split_bodies

from advisor.store import segment_bodies
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.directives import delivery
from webapp.http import postponed
from webapp.http.postponed import Postponed
from webapp.ingest import accept, appending, artefacts, description, resend, segments, uploaders
from webapp.ingest.bodies import SEVERAL, decoded, must_match
from webapp.ingest.upload import Upload
from webapp.runs import resource

_agents = Bearer(Token.INGEST, remembers=True)
router = Router(tags=["ingest"], auth=_agents)


@resource.router.put(
    resource.ADDRESS,
    response=description.UploadOut,
    tags=["ingest"],
    auth=_agents,
    summary="Declare a run and its node",
    openapi_extra=description.DECLARATION,
)
def put_declaration(request: HttpRequest, run_id: UUID) -> dict[str, Any]:
    """Creates or updates the run. May be sent after its segments, and repeatedly."""
    declaration = decoded(decode_declaration, request)
    must_match("run_id", run_id, declaration.run_id)
    token: Token = request.auth  # type: ignore[attr-defined]
    accept.declaration(token.workspace, declaration, len(request.body), token)
    uploaders.remember(token, run_id)
    return _answer(duplicate=False)


@router.put(
    "/runs/{run_id}/segments/{session_id}/{seq}",
    response=description.UploadOut,
    summary="Upload a segment",
    openapi_extra=description.SEGMENT,
)
def put_segment(request: HttpRequest, run_id: UUID, session_id: UUID, seq: int) -> HttpResponse:
    """Answers when the segment is durable. A replay answers `duplicate: true`."""
    segment = decoded(segment_bodies.decoded, request)
    must_match("seq", seq, segment.seq)
    segments.check(segment, run_id, session_id)
    upload = Upload(segment, request.body, _sent_at_ns(request))
    token: Token = request.auth  # type: ignore[attr-defined]
    answered = request.headers.get(resend.HEADER, "")
    begun = accept.begin(token.workspace, upload, token)
    if isinstance(begun, accept.Accepted):
        return _receipt(upload, begun, token, answered)
    if postponed.is_offered(request) and not resend.is_due(upload, answered):
        left = Postponed(begun.part, begun.write, partial(_finished, begun, token))
        return postponed.postpone(request, left)
    return _receipt(upload, accept.complete(begun), token, answered)


def _finished(
    begun: accept.Begun, token: Token, row: appending.Appended | Exception
) -> HttpResponse:
    try:
        return _receipt(begun.upload, accept.finish(begun, row), token, answered="")
    except Exception as error:
        return segments.problem(error).response()


def _receipt(
    upload: Upload, accepted: accept.Accepted, token: Token, answered: str
) -> HttpResponse:
    """Not through the schema, which `tests/service/test_openapi.py` holds it to: nearly all
    requests come here."""
    segment = upload.segment
    uploaders.remember(token, segment.run_id)
    asked = delivery.pending(segment.clock.session_id) if accepted.may_be_asked else []
    again = resend.missing(upload, answered)
    said = segments.receipt(upload, accepted)
    return JsonResponse(_answer(**said, directives=asked, resend=again))


@router.post(
    "/runs/{run_id}/segments/{session_id}",
    response=description.SegmentsOut,
    summary="Upload several segments of a session",
    openapi_extra=description.SEGMENTS,
)
def post_segments(request: HttpRequest, run_id: UUID, session_id: UUID) -> dict[str, Any]:
    """Answers for each segment once all accepted ones are durable. None fails others."""
    received = decoded(split_bodies, request, SEVERAL)
    token: Token = request.auth  # type: ignore[attr-defined]
    batch = segments.Batch(received, _sent_at_ns(request))
    batch.read(run_id, session_id)
    batch.accept(token)
    asked: list[dict[str, Any]] = []
    again: list[tuple[UUID, int]] = []
    if taken := batch.accepted:
        uploaders.remember(token, run_id)
        again = resend.missing(taken[0], request.headers.get(resend.HEADER, ""))
        asked = delivery.pending(session_id) if batch.may_be_asked else []
    return _answer(answers=batch.answers, directives=asked, resend=again)


@resource.router.put(
    resource.ARTEFACT,
    response=description.UploadOut,
    tags=["ingest"],
    auth=_agents,
    summary="Upload a file that belongs to a run",
    openapi_extra=description.ARTEFACT,
)
def put_artefact(
    request: HttpRequest,
    run_id: UUID,
    sha256: str = Path(..., pattern=resource.SHA256),  # type: ignore[type-arg]
) -> dict[str, Any]:
    """Answers when it is durable. The same content again answers `duplicate: true`."""
    said = artefacts.described(request)
    with artefacts.received(request, sha256) as file:
        token: Token = request.auth  # type: ignore[attr-defined]
        duplicate = artefacts.keep(token, run_id, sha256, said, file)
    uploaders.remember(token, run_id)
    return _answer(duplicate=duplicate)


def _sent_at_ns(request: HttpRequest) -> int | None:
    text = request.headers.get("X-Trimtab-Sent-At", "")
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _answer(**more: Any) -> dict[str, Any]:
    return {
        "server_time_ns": time.time_ns(),
        "retry_after": None,
        "directives": [],
        "resend": [],
        **more,
    }

"""The upload API: declarations and segments of agents."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Router
from trimtab.wire import decode_declaration, split_bodies

from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.directives import delivery
from webapp.ingest import artefacts, bodies, declarations, description, resend, segments, uploaders
from webapp.ingest.bodies import SEVERAL, check_match, decode_request
from webapp.ingest.write import write_segment
from webapp.runs import resource

agents = Bearer(Token.INGEST, remembers=True)
router = Router(tags=["ingest"], auth=agents)


@resource.router.put(
    resource.ADDRESS,
    response=description.UploadOut,
    tags=["ingest"],
    auth=agents,
    summary="Declare a run and its node",
    openapi_extra=description.DECLARATION,
)
def put_declaration(request: HttpRequest, run_id: UUID) -> dict[str, Any]:
    """Creates or updates the run. May be sent after its segments, and repeatedly."""
    declaration = decode_request(decode_declaration, request)
    check_match("run_id", run_id, declaration.run_id)
    token: Token = request.auth  # type: ignore[attr-defined]
    declarations.store_declaration(token.workspace, declaration, len(request.body), token)
    uploaders.remember_uploader(token, run_id)
    return segments.answer_fields(duplicate=False)


@router.put(
    "/runs/{run_id}/segments/{session_id}/{seq}",
    response=description.UploadOut,
    summary="Upload a segment",
    openapi_extra=description.SEGMENT,
)
def put_segment(request: HttpRequest, run_id: UUID, session_id: UUID, seq: int) -> HttpResponse:
    """Answers when the segment is durable. A replay answers `duplicate: true`."""
    bodies.check_headers(request.headers)
    token: Token = request.auth  # type: ignore[attr-defined]
    body = bodies.read_body(request)
    upload = segments.read_segment(run_id, session_id, seq, request.headers, body, token)
    return segments.answer_segment(upload, write_segment(upload), token, request.headers)


@router.post(
    "/runs/{run_id}/segments/{session_id}",
    response=description.SegmentsOut,
    summary="Upload several segments of a session",
    openapi_extra=description.SEGMENTS,
)
def post_segments(request: HttpRequest, run_id: UUID, session_id: UUID) -> dict[str, Any]:
    """Answers for each segment once all accepted ones are durable. None fails others."""
    received = decode_request(split_bodies, request, SEVERAL)
    token: Token = request.auth  # type: ignore[attr-defined]
    batch = segments.Batch(received, segments.sent_at_ns(request.headers))
    batch.read(run_id, session_id, token)
    batch.write()
    asked: list[dict[str, Any]] = []
    again: list[tuple[UUID, int]] = []
    if stored := batch.stored:
        uploaders.remember_uploader(token, run_id)
        again = resend.find_missing_segments(stored[0], request.headers.get(resend.HEADER, ""))
        asked = delivery.pending_directives(session_id) if batch.may_be_asked else []
    return segments.answer_fields(answers=batch.answers, directives=asked, resend=again)


@resource.router.put(
    resource.ARTEFACT,
    response=description.UploadOut,
    tags=["ingest"],
    auth=agents,
    summary="Upload a file that belongs to a run",
    openapi_extra=description.ARTEFACT,
)
def put_artefact(
    request: HttpRequest,
    run_id: UUID,
    sha256: str = Path(..., pattern=resource.SHA256),  # type: ignore[type-arg]
) -> dict[str, Any]:
    """Answers when it is durable. The same content again answers `duplicate: true`."""
    said = artefacts.read_description(request)
    with artefacts.receive_file(request, sha256) as file:
        token: Token = request.auth  # type: ignore[attr-defined]
        duplicate = artefacts.store_artefact(token, run_id, sha256, said, file)
    uploaders.remember_uploader(token, run_id)
    return segments.answer_fields(duplicate=duplicate)

"""The upload API: declarations and segments of agents."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Path, Router
from trimtab.wire import Segment, decode_declaration, decode_segment

from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.directives import delivery
from webapp.http.problems import Problem
from webapp.ingest import accept, artefacts, description, resend, uploaders
from webapp.ingest.bodies import decoded
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
    _must_match("run_id", run_id, declaration.run_id)
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
def put_segment(request: HttpRequest, run_id: UUID, session_id: UUID, seq: int) -> dict[str, Any]:
    """Answers when the segment is durable. A replay answers `duplicate: true`."""
    segment = decoded(decode_segment, request)
    _must_match("run_id", run_id, segment.run_id)
    _must_match("session_id", session_id, segment.clock.session_id)
    _must_match("seq", seq, segment.seq)
    _must_hold_something(segment)
    upload = accept.Upload(segment, request.body, _sent_at_ns(request))
    token: Token = request.auth  # type: ignore[attr-defined]
    accepted = accept.segment(token.workspace, upload, token)
    uploaders.remember(token, run_id)
    refused = [{"name": r.name, "reason": r.reason} for r in segment.refused]
    asked = delivery.pending(session_id) if accepted.may_be_asked else []
    again = resend.missing(upload, request.headers.get(resend.HEADER, ""))
    return _answer(duplicate=accepted.is_duplicate, refused=refused, directives=asked, resend=again)


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


def _must_match(field: str, in_url: object, in_body: object) -> None:
    if in_url != in_body:
        detail = f"The body says {in_body}, the URL {in_url}."
        fix = "Send the same value in both."
        raise Problem(400, detail, field, fix, kind="invalid-upload")


def _must_hold_something(segment: Segment) -> None:
    """One bad part costs only itself; of a segment that has no other nothing would be kept."""
    kept = [*segment.steps, *segment.step_summaries, *segment.events]
    kept += [block for block in segment.blocks if block.columns]
    if segment.refused and not kept:
        first = segment.refused[0]
        fix = "Correct this part: the segment has no other content."
        detail = f"Refused: {first.reason}."
        raise Problem(400, detail, first.name, fix, kind="invalid-upload")


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

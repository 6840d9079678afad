"""The upload API: declarations and segments of agents."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Router
from trimtab.wire import LIMITS, WireError, decode_declaration, decode_segment

from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.ingest import accept
from webapp.problems import Problem
from webapp.runs import resource

_agents = Bearer(Token.INGEST)
router = Router(tags=["ingest"], auth=_agents)


@resource.router.put(
    resource.ADDRESS, tags=["ingest"], auth=_agents, summary="Declare a run and its node"
)
def put_declaration(request: HttpRequest, run_id: UUID) -> dict[str, Any]:
    """Makes or updates the run. May come after its segments, and again."""
    declaration = _decoded(decode_declaration, request)
    _must_match("run_id", run_id, declaration.run_id)
    accept.declaration(request.auth.workspace, declaration)  # type: ignore[attr-defined]
    return _answer(duplicate=False)


@router.put("/runs/{run_id}/segments/{session_id}/{seq}", summary="Upload a segment")
def put_segment(request: HttpRequest, run_id: UUID, session_id: UUID, seq: int) -> dict[str, Any]:
    """Answers when the segment is durable. A replay answers `duplicate: true`."""
    segment = _decoded(decode_segment, request)
    _must_match("run_id", run_id, segment.run_id)
    _must_match("session_id", session_id, segment.clock.session_id)
    _must_match("seq", seq, segment.seq)
    upload = accept.Upload(segment, request.body, _sent_at_ns(request))
    duplicate = accept.segment(request.auth.workspace, upload)  # type: ignore[attr-defined]
    refused = [{"name": r.name, "reason": r.reason} for r in segment.refused]
    return _answer(duplicate=duplicate, refused=refused)


def _decoded(decode: Any, request: HttpRequest) -> Any:
    if int(request.headers.get("Content-Length") or 0) > LIMITS.body_bytes:
        raise Problem(413, f"Over {LIMITS.body_bytes} bytes.", "body", "Send smaller segments.")
    try:
        return decode(request.body)
    except WireError as error:
        raise Problem(400, error.problem, error.field, error.fix) from None


def _must_match(field: str, in_url: object, in_body: object) -> None:
    if in_url != in_body:
        detail = f"The body says {in_body}, the address {in_url}."
        raise Problem(400, detail, field, "Send the same in both.")


def _sent_at_ns(request: HttpRequest) -> int | None:
    text = request.headers.get("X-Trimtab-Sent-At", "")
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _answer(**more: Any) -> dict[str, Any]:
    return {"server_time_ns": time.time_ns(), "retry_after": None, "directives": [], **more}

"""Describes uploads and their answers in the API's own description."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ninja import Field, Schema
from trimtab.wire import LIMITS

from webapp.ingest import artefacts
from webapp.ingest.bodies import DECLARATION_TYPE, SEGMENT_TYPE, SEGMENTS_TYPE


class RefusalOut(Schema):
    name: str
    reason: str


class AnswerOut(Schema):
    server_time_ns: int
    retry_after: float | None = Field(description="Seconds to wait before the next upload.")
    directives: list[dict[str, Any]]
    resend: list[tuple[UUID, int]] = Field(
        [], description="Session and number of segments to send again: the service lost them."
    )


class UploadOut(AnswerOut):
    duplicate: bool = Field(description="The same body was already uploaded; nothing changed.")
    refused: list[RefusalOut] = Field([], description="Refused parts; the rest was kept.")


class SegmentOut(Schema):
    status: int = Field(description="As a single upload of this segment is answered.")
    duplicate: bool | None = Field(None, description="Status 200: it was already uploaded.")
    refused: list[RefusalOut] = Field([], description="Refused parts; the rest was kept.")
    problem: dict[str, Any] | None = Field(None, description="Why the status is another.")
    retry_after: float | None = Field(None, description="Seconds to wait before it is sent again.")


class SegmentsOut(AnswerOut):
    answers: list[SegmentOut] = Field(description="One for each segment, in their order.")


_OTHER = {411: "Length Required", 415: "Unsupported Media Type"}
_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_RESPONSES = {
    status: {"description": phrase, "content": _PROBLEM} for status, phrase in _OTHER.items()
}


_ANSWERED = {
    "in": "header",
    "name": "X-Trimtab-Answered",
    "required": False,
    "description": "Numbers of the session's segments that were answered with 200 and can be sent "
    "again, as ranges: 12-96,3. The service asks for those that it lost.",
    "schema": {"type": "string", "pattern": r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"},
}


_SENT_AT = {
    "in": "header",
    "name": "X-Trimtab-Sent-At",
    "required": False,
    "description": "Time of sending by the sender's clock, ns since 1970.",
    "schema": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
}
_ENCODING = {
    "in": "header",
    "name": "Content-Encoding",
    "required": False,
    "schema": {"type": "string", "enum": ["gzip"]},
}
_ONE = "A gzip'd JSON object, {}: see docs/wire.md."
_SEVERAL = (
    f"1 to {LIMITS.bodies} segments of the session, each as in a single upload and after its "
    "length (4 bytes, the highest first). Together they may be as large as one: see docs/wire.md."
)


def _described(
    content_type: str, what: str, *parameters: dict[str, Any], **schema: int
) -> dict[str, Any]:
    body = {
        "type": "string",
        "format": "binary",
        "maxLength": LIMITS.body_bytes,
        "description": what,
        **schema,
    }
    return {
        "requestBody": {"required": True, "content": {content_type: {"schema": body}}},
        "responses": _RESPONSES,
        "parameters": [*parameters, _SENT_AT],
    }


SEGMENT = _described(
    SEGMENT_TYPE, _ONE.format("some seconds of all series of one node"), _ANSWERED, _ENCODING
)
SEGMENTS = _described(SEGMENTS_TYPE, _SEVERAL, _ANSWERED, minLength=5)
DECLARATION = _described(DECLARATION_TYPE, _ONE.format("what the run and its node are"), _ENCODING)


def _header(name: str, required: bool, description: str, **schema: Any) -> dict[str, Any]:
    shape = {"type": "string", **schema}
    described = {"name": name, "required": required, "description": description, "schema": shape}
    return {"in": "header", **described}


ARTEFACT = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {
                "schema": {
                    "type": "string",
                    "format": "binary",
                    "maxLength": artefacts.MOST_BYTES,
                    "description": "The file; its SHA-256 is in the URL.",
                }
            }
        },
    },
    "responses": _RESPONSES,
    "parameters": [
        _header(
            "X-Trimtab-Kind",
            True,
            "Kind of file: `profile`, `import`, ...",
            pattern="^[a-z][a-z0-9_-]{0,31}$",
        ),
        _header("X-Trimtab-Name", True, "File name without a path, percent-encoded."),
        _header(
            "X-Trimtab-Job",
            False,
            "Name of the run's job, percent-encoded; needed if the run is new.",
        ),
    ],
}

"""What an upload is and how it is answered, for the API's own description."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ninja import Field, Schema
from trimtab.wire import LIMITS

from webapp.ingest import artefacts
from webapp.ingest.bodies import DECLARATION_TYPE, SEGMENT_TYPE


class RefusalOut(Schema):
    name: str
    reason: str


class UploadOut(Schema):
    duplicate: bool = Field(description="The same body was already uploaded; nothing changed.")
    refused: list[RefusalOut] = Field([], description="Refused parts; the rest was kept.")
    server_time_ns: int
    retry_after: float | None = Field(description="Seconds to wait before the next upload.")
    directives: list[dict[str, Any]]
    resend: list[tuple[UUID, int]] = Field(
        [], description="Session and number of segments to send again: the service lost them."
    )


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


def _described(content_type: str, what: str, *more: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "string",
        "format": "binary",
        "maxLength": LIMITS.body_bytes,
        "description": f"A gzip'd JSON object, {what}: see docs/wire.md.",
    }
    return {
        "requestBody": {"required": True, "content": {content_type: {"schema": schema}}},
        "responses": _RESPONSES,
        "parameters": [
            *more,
            {
                "in": "header",
                "name": "X-Trimtab-Sent-At",
                "required": False,
                "description": "Time of sending by the sender's clock, ns since 1970.",
                "schema": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
            },
            {
                "in": "header",
                "name": "Content-Encoding",
                "required": False,
                "schema": {"type": "string", "enum": ["gzip"]},
            },
        ],
    }


SEGMENT = _described(SEGMENT_TYPE, "some seconds of all series of one node", _ANSWERED)
DECLARATION = _described(DECLARATION_TYPE, "what the run and its node are")


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

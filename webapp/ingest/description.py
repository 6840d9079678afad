"""What an upload is and how it is answered, for the API's own description."""

from __future__ import annotations

from typing import Any

from ninja import Field, Schema
from trimtab.wire import LIMITS

from webapp.ingest.bodies import DECLARATION_TYPE, SEGMENT_TYPE


class RefusalOut(Schema):
    name: str
    reason: str


class UploadOut(Schema):
    duplicate: bool = Field(description="The same body was already here; nothing changed.")
    refused: list[RefusalOut] = Field([], description="Parts left out; the rest was kept.")
    server_time_ns: int
    retry_after: float | None = Field(description="Seconds in which nothing should be sent.")
    directives: list[dict[str, Any]]


def _described(content_type: str, what: str) -> dict[str, Any]:
    schema = {
        "type": "string",
        "format": "binary",
        "maxLength": LIMITS.body_bytes,
        "description": f"A gzip'd JSON object, {what}: see docs/wire.md.",
    }
    other = {411: "Length Required", 415: "Unsupported Media Type"}
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        "requestBody": {"required": True, "content": {content_type: {"schema": schema}}},
        "responses": {
            status: {"description": phrase, "content": problem} for status, phrase in other.items()
        },
        "parameters": [
            {
                "in": "header",
                "name": "X-Trimtab-Sent-At",
                "required": False,
                "description": "When the sender's clock says that it sent, ns since 1970.",
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


SEGMENT = _described(SEGMENT_TYPE, "some seconds of all series of one node")
DECLARATION = _described(DECLARATION_TYPE, "what the run and its node are")

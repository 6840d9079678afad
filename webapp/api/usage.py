"""A workspace's use of its quotas, as the page shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Field, Router, Schema

from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.quotas import usage as selector

router = Router(tags=["read"], auth=Bearer(Token.READ))


class QuotaOut(Schema):
    name: str
    title: str
    used: int | None = Field(
        description="Bytes, runs, series, imports or CPU seconds; null: unknown."
    )
    limit: int | None = Field(description="null: no limit.")
    state: str = Field(description="`ok`, `close` (from 80 %) or `over`.")
    frees_at: datetime | None = Field(
        description="When some of what is used counts no longer; if the limit is reached, when "
        "there is room again. null: not by time."
    )


class TokenUseOut(Schema):
    name: str
    prefix: str
    quotas: list[QuotaOut]


class JobUseOut(Schema):
    id: UUID
    name: str
    stored_bytes: int


class UsageOut(Schema):
    quotas: list[QuotaOut] = Field(description="Of the workspace.")
    tokens: list[TokenUseOut] = Field(
        description="Those that uploaded in the last 24 hours, the busiest first."
    )
    jobs: list[JobUseOut] = Field(description="The ten that store most, as last counted.")
    storage_counted_at: datetime | None = Field(description="null: not counted yet.")


@router.get("/usage", response=UsageOut, summary="What the workspace uses of its quotas")
def get_usage(request: TokenRequest) -> dict[str, Any]:
    workspace = request.auth.workspace
    counted = selector.storage(workspace)
    lines = selector.lines(workspace) + selector.import_lines(workspace)
    return {
        "quotas": [_quota(line) for line in lines],
        "tokens": [_token(use) for use in selector.by_token(workspace)],
        "jobs": [
            {"id": use.job.uuid, "name": use.job.name, "stored_bytes": use.size_bytes}
            for use in selector.largest_jobs(workspace, counted)
        ],
        "storage_counted_at": counted.counted_at if counted else None,
    }


def _token(use: selector.TokenUse) -> dict[str, Any]:
    quotas = [_quota(line) for line in use.lines]
    return {"name": use.token.name, "prefix": use.token.prefix, "quotas": quotas}


def _quota(line: selector.QuotaLine) -> dict[str, Any]:
    return {
        "name": line.quota.name,
        "title": line.quota.title,
        "used": line.used,
        "limit": line.limit or None,
        "state": line.state,
        "frees_at": line.frees_at,
    }

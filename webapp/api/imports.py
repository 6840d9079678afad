"""Imports from S3, begun by scripts."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.urls import reverse
from ninja import Field, Router, Schema, Status

from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.api import readable
from webapp.api.changes import ChangeIn, Name
from webapp.api.description import problem
from webapp.http.problems import Problem
from webapp.imports import from_s3, retrying
from webapp.imports.selectors import ImportLine, imports_of
from webapp.runs import scope

router = Router(tags=["write"])


class SourceIn(ChangeIn):
    source: str = Field(
        max_length=1200, description="s3://BUCKET/PREFIX, which the workspace may read."
    )
    job: Name = Field("", description="Default: as the training job is called.")
    run: UUID | None = Field(None, description="Default: the same for the same source.")
    provider: Name = ""
    service: Name = ""
    region: Name = ""
    instance_type: Name = ""
    purchase_option: Name = ""
    columns: dict[str, str] = Field(
        {}, max_length=1000, description="Of a CSV file: column -> series, or `time`."
    )
    describe: dict[str, Any] | None = Field(
        None, description="The answer of DescribeTrainingJob; default: the service asks AWS."
    )


class SkippedOut(Schema):
    what: str = Field(description="A plural noun: `records`, `lines`, `files`.")
    why: str
    count: int
    first: str = Field(description="Where the first of them is; empty if that isn't known.")


class ImportOut(Schema):
    run: UUID
    url: str
    state: str = Field(description="`due`, `under_way`, `retry`, `failed` or `done`.")
    stage: str = Field(description="What is being done; empty: nothing.")
    place: int | None = Field(
        description="In the line of all workspaces' imports, from 1; null: not in line, or behind "
        "the first hundred."
    )
    continues_at: datetime | None = Field(
        description="When it may begin, if a quota of imports is used up; else null."
    )
    error: str = Field(description="Why it failed, or why the last attempt did.")
    format: str = Field(description="Empty until it is known.")
    records: int
    skipped: int
    reasons: list[SkippedOut] = Field(description="What was skipped, the most first.")
    notes: list[str] = Field(description="What was assumed.")


@router.post(
    "/imports",
    response={202: ImportOut},
    auth=Bearer(Token.WRITE),
    summary="Import from S3",
    openapi_extra={"responses": {403: problem(403), 429: problem(429)}},
)
def post_import(request: TokenRequest, said: SourceIn) -> Status[dict[str, Any]]:
    """Queues an import. The service reads it with its own AWS credentials, where the operator
    allows it. The same again imports again, into the same run.
    """
    stated = said.dict(include=set(from_s3.STATED))
    wanted = from_s3.ImportRequest(
        said.source,
        said.job,
        said.run,
        {name: value for name, value in stated.items() if value},
        said.describe,
    )
    begun = from_s3.queue_import(request.auth.workspace, request.auth, wanted)
    lines = imports_of(begun.artefact.run, [begun.artefact])
    return Status(202, next(_document(line) for line in lines if line.row == begun))


@router.get(
    "/runs/{run_id}/imports",
    response=list[ImportOut],
    tags=["read"],
    auth=Bearer(Token.READ, Token.INGEST),
    summary="How the imports of a run are going",
)
def get_imports(request: TokenRequest, run_id: UUID) -> list[dict[str, Any]]:
    """Answers the run's imports, including uploaded ones; the oldest first. A token with the scope
    `ingest` but not `read` reads those of runs that it uploaded to.
    """
    run = readable.run(request.auth, str(run_id))
    return [_document(line) for line in imports_of(run, run.artefacts.all())]


@router.post(
    "/runs/{run_id}/imports/retry",
    response={202: list[ImportOut]},
    auth=Bearer(Token.WRITE),
    summary="Convert again what failed to import",
    openapi_extra={"responses": {409: problem(409), 429: problem(429)}},
)
def post_retry(request: TokenRequest, run_id: UUID) -> Status[list[dict[str, Any]]]:
    """Queues the run's failed imports again, with the files that were kept."""
    run = scope.run_or_404(request.auth.workspace, run_id)
    if not retrying.retry(run):
        detail, fix = "No import of this run has failed.", "Wait until it has ended."
        raise Problem(409, detail, "run_id", fix)
    return Status(202, [_document(line) for line in imports_of(run, run.artefacts.all())])


def _document(line: ImportLine) -> dict[str, Any]:
    run_id = line.row.artefact.run_id
    return {
        "run": run_id,
        "url": settings.BASE_URL + reverse("dashboard:run", args=[run_id]),
        "state": line.state,
        "stage": "" if line.is_done or line.has_failed else line.row.stage,
        "place": line.place,
        "continues_at": line.pause.until if line.is_waiting and line.pause else None,
        "error": line.row.error,
        "format": line.format,
        "records": line.record_count,
        "skipped": line.skipped_count,
        "reasons": line.skipped,
        "notes": line.notes,
    }

"""Tables of a run as CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.http import HttpResponse
from ninja import Query, Router

from advisor.store.room import RoomExceededError
from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.api import readable
from webapp.api.description import problem
from webapp.api.export_tables import TABLES, Columns, ExportRequest
from webapp.http.downloads import attachment_header, plain_cell
from webapp.http.problems import Problem
from webapp.runs.models import Run

router = Router(tags=["read"])
MOST_BUCKETS, DEFAULT_BUCKETS, MOST_NAMES_CHARS = 20_000, 2_000, 10_000
_PARQUET = "application/vnd.apache.parquet"
_FILES = {
    "text/csv": {"schema": {"type": "string"}},
    "application/json": {"schema": {"type": "object"}},
    _PARQUET: {"schema": {"type": "string", "format": "binary"}},
}


@router.get(
    "/export",
    auth=Bearer(Token.READ, Token.INGEST),
    summary="A table of a run as CSV, JSON or Parquet",
    openapi_extra={
        "responses": {200: {"description": "The table", "content": _FILES}, 404: problem(404)}
    },
)
def get_export(
    request: TokenRequest,
    run: str = Query(..., max_length=400, description="A run's id, or JOB#NUMBER."),  # type: ignore[type-arg]
    table: str = Query("series", pattern=f"^({'|'.join(TABLES)})$"),  # type: ignore[type-arg]
    format: str = Query("json", pattern="^(csv|json|parquet)$"),  # type: ignore[type-arg]
    names: str = Query(  # type: ignore[type-arg]
        "",
        max_length=MOST_NAMES_CHARS,
        description="Series or metrics, comma-separated; default all. `samples` needs them.",
    ),
    start: float = Query(0, alias="from", ge=0, description="Seconds since the run's start."),  # type: ignore[type-arg]
    end: float | None = Query(None, alias="to"),  # type: ignore[type-arg]
    buckets: int = Query(DEFAULT_BUCKETS, ge=1, le=MOST_BUCKETS, description="Rows of series."),  # type: ignore[type-arg]
) -> HttpResponse:
    """Answers a table of a run. A token with the scope `ingest` but not `read` reads only the runs
    that it uploaded to.
    """
    named = readable.run(request.auth, run)
    length = named.duration.total_seconds() if named.duration else 0.0
    until = length if end is None or not math.isfinite(end) else min(end, length)
    chosen = tuple(dict.fromkeys(name for name in names.split(",") if name))
    begin = start if math.isfinite(start) else 0.0
    try:
        columns = TABLES[table](ExportRequest(named, begin, until, buckets, chosen))
    except RoomExceededError as error:
        fix = "Ask for a part of the run, with `from` and `to`."
        raise Problem(422, f"The run has {error}.", "to", fix) from None
    content, kind = _WRITERS[format](named, table, columns)
    name = attachment_header(f"{named.job.name}-{named.number}-{table}.{format}")
    return HttpResponse(content, content_type=kind, headers={"Content-Disposition": name})


def _csv(_run: Run, _table: str, columns: Columns) -> tuple[bytes, str]:
    text = io.StringIO()
    lines = csv.writer(text)
    lines.writerow([plain_cell(name) for name in columns])
    for row in zip(*columns.values(), strict=True):
        lines.writerow([plain_cell(_text(value)) for value in row])
    return text.getvalue().encode(), "text/csv; charset=utf-8"


def _json(run: Run, table: str, columns: Columns) -> tuple[bytes, str]:
    """Return the table as JSON. Numbers that JSON lacks are null."""
    plain = {name: [_plain(value) for value in values] for name, values in columns.items()}
    document = {"run": str(run.pk), "job": run.job.name, "number": run.number}
    whole = {**document, "table": table, "columns": plain}
    return json.dumps(whole, allow_nan=False, separators=(",", ":")).encode(), "application/json"


def _parquet(run: Run, table: str, columns: Columns) -> tuple[bytes, str]:
    body = io.BytesIO()
    made = pa.table({name: pa.array(values) for name, values in columns.items()})
    said = {"run": str(run.pk), "job": run.job.name, "number": str(run.number), "table": table}
    pq.write_table(made.replace_schema_metadata(said), body, compression="zstd")
    return body.getvalue(), _PARQUET


_WRITERS: dict[str, Callable[[Run, str, Columns], tuple[bytes, str]]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
}


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else _text(value)

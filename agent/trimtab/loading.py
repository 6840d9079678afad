"""`trimtab.load`: a table of a run, for notebooks and scripts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from trimtab import options
from trimtab.transport import ServiceConnection

_TIME = "time"
_MOST_BYTES = 256 * 1024 * 1024
_PATIENCE_SECONDS = 60.0


class LoadError(RuntimeError):
    """Raised when nothing could be loaded. The message says why."""


def load(
    run: str,
    table: str = "series",
    *,
    names: Sequence[str] = (),
    start: float = 0.0,
    end: float | None = None,
    buckets: int = 2_000,
    url: str | None = None,
    token: str | None = None,
) -> dict[str, list[Any]]:
    """Return a table of a run as columns: `pandas.DataFrame(trimtab.load("JOB#12"))`.

    Args:
        run: its id, or JOB#NUMBER.
        table: `series` (means in equal buckets), `samples` (single ones of `names`), `steps`,
            `metrics`, `events`, `ledger`, `cost` or `findings`.
        names: series or metrics; default all.
        start, end: seconds since the start of the run.
        buckets: how many rows `series` has at most, for each node.
        url, token: of the service; default as `trimtab run` finds them.

    Returns:
        Lists of equal length. Missing values are None; `time` is in UTC.

    Raises:
        LoadError: no service, no such run or table, or too much at once.
    """
    server = options.server(url, token, os.environ)
    if not server.url or not server.token:
        raise LoadError("no service is set. Set TRIMTAB_URL and TRIMTAB_TOKEN.")
    query = {"run": run, "table": table, "names": ",".join(names), "from": start}
    query |= {"buckets": buckets} if end is None else {"buckets": buckets, "to": end}
    try:
        connection = ServiceConnection(server, _PATIENCE_SECONDS, _MOST_BYTES)
        answer = connection.get(f"export?{urlencode(query)}")
    except ValueError as error:
        raise LoadError(str(error)) from None
    columns = answer.document.get("columns")
    if answer.status != 200 or not isinstance(columns, dict):
        raise LoadError(answer.problem or f"{server.url} didn't answer with a table")
    if _TIME in columns:
        columns[_TIME] = [datetime.fromisoformat(text) for text in columns[_TIME]]
    return columns

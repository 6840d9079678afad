"""The list of runs as CSV: all pages of the same address."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.dashboard.selectors.run_fields import FieldName, read_values
from webapp.dashboard.selectors.run_table import RunTable
from webapp.http.downloads import exact_cell, plain_cell
from webapp.runs import scope

AT_ONCE = 5000
BASE = ("job__name", "number", "state", "owner", "job__owner", "started_at", "ended_at", "cost_usd")
NAMES = (*("job", "number", "state", "owner", "started_at", "ended_at", "cost_usd"), "url")


class _Echo:
    """A file that hands back what is written to it."""

    def write(self, line: str) -> str:
        return line


@require_safe
def runs_csv(request: PersonRequest) -> HttpResponse | StreamingHttpResponse:
    """Answers a line per run, with the values of the list's columns. USD are exact to the
    nano-dollar, times in UTC; an empty cost means no price. 400 for a filter that can't be read.
    """
    table = RunTable.from_query(request.GET, request.workspace)
    if table.error is not None:
        return HttpResponse(str(table.error), status=400, content_type="text/plain")
    columns = [each for each in table.columns if each.field is not None]
    lines = csv.writer(_Echo())
    head = [*NAMES, *(plain_cell(column.name) for column in columns)]
    rows = (lines.writerow(row) for row in _rows(table, columns))
    answer = StreamingHttpResponse(
        _with_head(lines.writerow(head), rows), content_type="text/csv; charset=utf-8"
    )
    answer["Content-Disposition"] = 'attachment; filename="runs.csv"'
    return answer


def _with_head(head: str, rows: Iterator[str]) -> Iterator[str]:
    yield head
    yield from rows


def _rows(table: RunTable, columns: Sequence[FieldName]) -> Iterator[list[str]]:
    """Yield the cells of each run. The ids are read at once: meanwhile runs may come."""
    keys = [key for part in table.parts for key in part.values_list("pk", flat=True)]
    for start in range(0, len(keys), AT_ONCE):
        chosen = keys[start : start + AT_ONCE]
        own = scope.runs_of(table.workspace).filter(pk__in=chosen)
        rows = {row[0]: row[1:] for row in own.values_list("pk", *BASE)}
        values = _values(chosen, columns)
        for key in (key for key in chosen if key in rows):
            cells = [exact_cell(each) for each in (*_of_run(rows[key]), _address(key))]
            yield [*cells, *(values.get((key, column.field_id), "") for column in columns)]


def _values(keys: Sequence[Any], columns: Sequence[FieldName]) -> dict[tuple[Any, int | None], str]:
    """Return the cells of these runs and columns. A number is written as it was sent."""
    fields = [column.field for column in columns]
    found = read_values(keys, fields) if fields else ()
    return {
        (value.run_id, value.field_id): plain_cell(value.text)
        if value.number is None
        else value.text
        for value in found
    }


def _of_run(row: Sequence[Any]) -> Iterator[Any]:
    job, number, state, owner, job_owner, *rest = row
    yield from (job, number, state, owner or job_owner, *rest)


def _address(run_id: object) -> str:
    return settings.BASE_URL + reverse("dashboard:run", args=[run_id])

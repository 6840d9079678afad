"""The list of runs of all jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.paginator import Page, Paginator
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.analysis.selectors.ledger import MEANINGS
from webapp.dashboard.selectors import run_groups
from webapp.dashboard.selectors.run_conditions import FEW
from webapp.dashboard.selectors.run_fields import FieldName
from webapp.dashboard.selectors.run_table import OPERATORS, RunTable
from webapp.dashboard.selectors.saved_views import query_of, views_of
from webapp.runs.models import Run

PAGE_RUNS = 50
OF_FORM = ("name", "op", "value")
"""The fields of the form that adds a condition."""


@require_safe
def runs(request: PersonRequest) -> HttpResponse:
    """Shows the runs that match the address, or their groups; see `RunTable`."""
    table = RunTable.from_query(request.GET, request.workspace)
    if request.GET.get("value"):
        return redirect(_changed(request.GET, filter=table.text))
    context = _filters(request, table)
    if table.group is not None:
        context |= _grouped(request, table, table.group)
    else:
        context |= _listed(request, table)
    status = 200 if table.error is None else 400
    return render(request, "dashboard/runs.html", context, status=status)


def _filters(request: PersonRequest, table: RunTable) -> dict[str, Any]:
    saved = list(views_of(request.workspace, request.user))
    query = query_of(request.GET)
    return {
        "table": table,
        "chosen": table.links,
        "label": MEANINGS.get(table.links.label),
        "labels": {name: title for name, (title, _, _) in MEANINGS.items()},
        "states": Run.STATES,
        "spans": (1, 7, 30, 90),
        "operators": OPERATORS,
        "chips": [
            (str(each), _changed(request.GET, filter=table.filter_without(each)))
            for each in table.conditions
        ],
        "groupable": [named for named in table.fields.own if run_groups.can_group(named)],
        "saved": saved,
        "query": query,
        "current": next((view for view in saved if query and view.query == query), None),
    }


def _listed(request: PersonRequest, table: RunTable) -> dict[str, Any]:
    page = _page(table, request.GET.get("page"))
    # Only the page's rows are read: they are wide, and all are sorted.
    start = page.start_index() - 1 if page.paginator.count else 0
    listed = table.read(table.keys(start, start + PAGE_RUNS))
    values = table.values(listed)
    rows = [
        (run, [(column, values[run.pk].get(column.field_id)) for column in table.columns])
        for run in listed
    ]
    headings = list(_headings(table))
    return {"page": page, "rows": rows, "headings": headings, "more": table.count is None}


def _page(table: RunTable, number: str | None) -> Page[Any]:
    """Return the places of the page's runs."""
    count = FEW if table.count is None else table.count
    return Paginator(range(count), PAGE_RUNS).get_page(number)


def _headings(table: RunTable) -> Iterator[tuple[FieldName, str, str]]:
    """Yield each column, how the list is sorted by it, and the `sort` of its link, if any."""
    for column in table.columns:
        next_sort = table.next_sort(column) if table.can_sort(column) else ""
        yield column, table.direction(column), next_sort


def _grouped(request: PersonRequest, table: RunTable, by: FieldName) -> dict[str, Any]:
    columns = [each for each in table.columns if each.has_mean][: run_groups.MOST_MEANS]
    found = run_groups.group_runs(table.parts[0], by, columns) if run_groups.can_group(by) else []
    rows = [
        (
            group,
            _changed(request.GET, group="", filter=table.with_value(by, group.value)),
            list(zip(columns, group.means, strict=True)),
        )
        for group in found
    ]
    return {
        "groups": rows,
        "means": columns,
        "grouped_runs": sum(group.run_count for group in found),
        "most_groups": run_groups.MOST_GROUPS,
        "most_runs": run_groups.MOST_RUNS,
    }


def _changed(query: QueryDict, **changes: str) -> str:
    """Return the list's address with other values, and without the form's and the page number."""
    changed = query.copy()
    for name in (*OF_FORM, "page"):
        changed.pop(name, None)
    for name, value in changes.items():
        changed[name] = value
        if not value:
            del changed[name]
    return f"{reverse('dashboard:runs')}{'?' if changed else ''}{changed.urlencode()}"

"""The list of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from advisor.pricing.staleness import OldPrices
from webapp.accounts.access import PersonRequest
from webapp.analysis.selectors.old_prices import old_prices_of, old_prices_of_runs
from webapp.dashboard import live
from webapp.dashboard.selectors import groups
from webapp.dashboard.selectors import jobs as selector
from webapp.dashboard.selectors.facets import NONE, Facet, facet_choices
from webapp.dashboard.selectors.job_columns import COLUMNS, JobColumn
from webapp.dashboard.selectors.job_filter import JobFilter
from webapp.dashboard.selectors.sparkline import sparkline
from webapp.runs import scope
from webapp.runs.models import Run
from webapp.spend.scope import priced_parts_of

PAGE_JOBS, PAGE_GROUPS = 50, 20


@require_safe
def jobs(request: PersonRequest) -> HttpResponse:
    """Shows the jobs of the workspace with spend and possible savings, filtered and grouped by the
    URL; see `JobFilter`.
    """
    own, job_filter = scope.jobs_of(request.workspace), JobFilter.from_query(request.GET)
    if job_filter.is_all and not own.exists():
        return redirect("dashboard:home")
    version = live.workspace_state(request.workspace).version
    if unchanged := live.not_changed(request, version):
        return unchanged
    every = scope.runs_of(request.workspace)
    runs = job_filter.runs(every)
    if job_filter.group is not None:
        answer = _grouped(request, job_filter, job_filter.group, runs, version)
    else:
        answer = _listed(request, job_filter, runs, version)
    return live.with_version(request, answer, version)


def _listed(
    request: PersonRequest, job_filter: JobFilter, runs: QuerySet[Run], version: str
) -> HttpResponse:
    own = scope.jobs_of(request.workspace)
    chosen = job_filter.jobs(own, runs)
    figures, is_turned = job_filter.column.order, job_filter.is_turned
    listed = selector.list_jobs(request.workspace, chosen, runs, figures, is_turned=is_turned)
    page = Paginator(listed, PAGE_JOBS).get_page(request.GET.get("page"))
    found = selector.rows(request.workspace, page.object_list, runs)
    trends = selector.trends(page.object_list, runs)
    sparks = {job: sparkline(trend.usd, trend.per) for job, trend in trends.items()}
    shown = {
        "rows": [(row, sparks[row.job.pk]) for row in found],
        "page": page,
        "totals": selector.totals(chosen, runs),
        "version": version,
    }
    shown |= {"columns": COLUMNS, "headings": list(_headings(job_filter.sort))}
    return render(request, "dashboard/jobs.html", _filters(request, job_filter, runs) | shown)


def _headings(sort: str) -> Iterator[tuple[JobColumn, str, str]]:
    """Yield each column, how the list is sorted by it, and the `sort` of its link."""
    for column in COLUMNS:
        yield column, column.direction(sort), column.next_sort(sort)


def _grouped(
    request: PersonRequest, job_filter: JobFilter, facet: Facet, runs: QuerySet[Run], version: str
) -> HttpResponse:
    page = Paginator(groups.groups(runs, facet), PAGE_GROUPS).get_page(request.GET.get("page"))
    rows = [
        (group, _inside(request.GET, job_filter, facet, group.value)) for group in page.object_list
    ]
    shown = {"groups": rows, "page": page, "totals": groups.totals(runs), "version": version}
    return render(
        request, "dashboard/jobs_grouped.html", _filters(request, job_filter, runs) | shown
    )


def _filters(
    request: PersonRequest, job_filter: JobFilter, runs: QuerySet[Run]
) -> dict[str, object]:
    return {
        "old_prices": _old_prices(request, job_filter, runs),
        "job_filter": job_filter,
        "offered": facet_choices(scope.runs_of(request.workspace)),
        "chips": list(_chips(request.GET, job_filter)),
        "none": NONE,
        "asked": request.GET.urlencode(),
    }


def _old_prices(
    request: PersonRequest, job_filter: JobFilter, runs: QuerySet[Run]
) -> OldPrices | None:
    """Return the old prices of all runs by the days of their costs, since runs are a thousand times
    as many.
    """
    if not job_filter.is_all:
        return old_prices_of_runs(runs, selector.SPEND_DAYS)
    since = timezone.now().date() - timedelta(days=selector.SPEND_DAYS)
    return old_prices_of(priced_parts_of(request.workspace).filter(day__gte=since))


def _chips(query: QueryDict, job_filter: JobFilter) -> Iterator[tuple[str, str]]:
    """Yield the active filters, each with the URL that removes it."""
    if job_filter.owner:
        yield f"owner: {job_filter.owner}", _address(query, "owner", [])
    for word in job_filter.tag_words:
        rest = [other for other in job_filter.tag_words if other != word]
        yield word.replace("=", ": ", 1), _address(query, "tag", rest)


def _inside(query: QueryDict, job_filter: JobFilter, facet: Facet, value: str) -> str:
    """Return the URL of the jobs of one group."""
    if not facet.is_tag:
        return _address(query, "owner", [value or NONE], group=[])
    word = f"{facet.title}={value or NONE}"
    return _address(query, "tag", [*job_filter.tag_words, word], group=[])


def _address(query: QueryDict, name: str, values: list[str], **more: list[str]) -> str:
    changed = query.copy()
    for key, given in {name: values, "page": [], **more}.items():
        changed.setlist(key, given)
    return f"?{changed.urlencode()}"

"""The list of jobs as CSV: all pages of the same URL."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.accounts.models import Workspace
from webapp.dashboard.selectors import groups
from webapp.dashboard.selectors import jobs as selector
from webapp.dashboard.selectors.facets import Facet
from webapp.dashboard.selectors.job_columns import FIELDS
from webapp.dashboard.selectors.job_filter import JobFilter
from webapp.http.downloads import exact_cell, plain_cell
from webapp.runs import scope
from webapp.runs.models import Job, Run

GROUPED = (
    ("job", "job__name"),
    ("runs", "run_count"),
    ("spend_30_days_usd", "spend_usd"),
    ("runs_without_price_30_days", "unpriced_count"),
    ("last_run_at", "last_at"),
)
"""The columns of the file of groups, and what they are called in a row."""
AT_ONCE = 500


@require_safe
def jobs_csv(request: PersonRequest) -> HttpResponse:
    """Answers one line per job, or per group and job. USD are exact to the nano-dollar, times in
    UTC; an empty cost means no price.
    """
    job_filter = JobFilter.from_query(request.GET)
    runs = job_filter.runs(scope.runs_of(request.workspace))
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="jobs.csv"'
    writer = csv.writer(answer)
    if job_filter.group is not None:
        title = job_filter.group.title.lower()
        writer.writerow([plain_cell(title), *(name for name, _ in GROUPED), "url"])
        lines = _grouped(runs, job_filter.group)
    else:
        writer.writerow([*(field.name for field in FIELDS), "url"])
        jobs = job_filter.jobs(scope.jobs_of(request.workspace), runs)
        figures, is_turned = job_filter.column.order, job_filter.is_turned
        listed = selector.list_jobs(request.workspace, jobs, runs, figures, is_turned=is_turned)
        lines = _jobs(request.workspace, list(listed), runs)
    writer.writerows([exact_cell(value) for value in line] for line in lines)
    return answer


def _jobs(workspace: Workspace, jobs: Sequence[Job], runs: QuerySet[Run]) -> Iterator[list[Any]]:
    for start in range(0, len(jobs), AT_ONCE):
        for row in selector.rows(workspace, jobs[start : start + AT_ONCE], runs):
            yield [*(field.value(row) for field in FIELDS), _address(row.job.uuid)]


def _grouped(runs: QuerySet[Run], facet: Facet) -> Iterator[list[Any]]:
    for row in groups.grouped_jobs(runs, facet):
        yield [row["value"], *(row[key] for _, key in GROUPED), _address(row["job__uuid"])]


def _address(job_uuid: object) -> str:
    return settings.BASE_URL + reverse("dashboard:job", args=[job_uuid])

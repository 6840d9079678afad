"""The list of jobs as CSV: all pages of the same URL."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
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
from webapp.dashboard.selectors.job_filter import JobFilter
from webapp.http.downloads import plain_cell
from webapp.runs import scope
from webapp.runs.models import Job, Run

SUMS = ("runs", "spend_30_days_usd", "runs_without_price_30_days", "last_run_at")
JOBS = (
    *("job", "owner", "tags", *SUMS, "last_run_state", "last_cost_usd", "open_saving_month_usd"),
    *("last_verdict", "open_regression_usd"),
)
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
        writer.writerow([plain_cell(job_filter.group.title.lower()), "job", *SUMS, "url"])
        lines = _grouped(runs, job_filter.group)
    else:
        writer.writerow([*JOBS, "url"])
        jobs = job_filter.jobs(scope.jobs_of(request.workspace), runs)
        listed = selector.list_jobs(request.workspace, jobs, runs, job_filter.sort)
        lines = _jobs(request.workspace, list(listed), runs)
    writer.writerows([plain_cell(value) for value in line] for line in lines)
    return answer


def _jobs(workspace: Workspace, jobs: Sequence[Job], runs: QuerySet[Run]) -> Iterator[list[Any]]:
    for start in range(0, len(jobs), AT_ONCE):
        for row in selector.rows(workspace, jobs[start : start + AT_ONCE], runs):
            yield _line(row)


def _line(row: selector.JobRow) -> list[Any]:
    last = row.last_run
    tags = ", ".join(f"{key}={value}" for key, value in row.tags.items())
    return [
        row.job.name,
        row.owner,
        tags,
        row.run_count,
        _usd(row.spend_usd),
        row.unpriced_count,
        _time(last.began_at if last else None),
        last.state if last else "",
        _usd(last.cost_usd if last else None),
        _usd(row.saving_usd),
        row.verdict.title if row.verdict else "",
        _usd(row.regression.extra_usd if row.regression else None),
        _address(row.job.uuid),
    ]


def _grouped(runs: QuerySet[Run], facet: Facet) -> Iterator[list[Any]]:
    for row in groups.grouped_jobs(runs, facet):
        yield [
            row["value"],
            row["job__name"],
            row["run_count"],
            _usd(row["spend_usd"]),
            row["unpriced_count"],
            _time(row["last_at"]),
            _address(row["job__uuid"]),
        ]


def _usd(amount: Decimal | None) -> str:
    """Return the amount without an exponent, which some spreadsheets read as text."""
    return "" if amount is None else f"{amount:f}"


def _time(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat(timespec="seconds")


def _address(job_uuid: object) -> str:
    return settings.BASE_URL + reverse("dashboard:job", args=[job_uuid])

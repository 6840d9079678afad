"""The list of jobs by owner or by a tag, with what each group spent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Max, QuerySet

from webapp.dashboard.selectors.facets import Facet
from webapp.dashboard.selectors.jobs import Rows, dated, sums
from webapp.runs.models import Run

MOST_JOBS = 10
"""The jobs shown per group, by spend. The group's own page lists them all."""


@dataclass(frozen=True)
class GroupedJob:
    """A job's runs of one group."""

    name: str
    uuid: UUID
    run_count: int
    spend_usd: Decimal | None
    unpriced_count: int
    last_at: datetime


@dataclass(frozen=True)
class Group:
    """All runs with one value. A job whose runs have several values is in several groups."""

    value: str
    job_count: int
    run_count: int
    spend_usd: Decimal | None
    unpriced_count: int
    jobs: list[GroupedJob]

    @property
    def more_jobs(self) -> int:
        return self.job_count - len(self.jobs)


def groups(runs: QuerySet[Run], facet: Facet) -> Rows:
    """The totals of each group, highest spend first."""
    valued = _valued(runs, facet).values("value")
    summed = _with_sums(valued.annotate(job_count=Count("job", distinct=True)))
    return summed.order_by(F("spend_usd").desc(nulls_last=True), "value")


def totals(runs: QuerySet[Run]) -> dict[str, Any]:
    """The totals of all groups."""
    return dated(runs).aggregate(job_count=Count("job", distinct=True), **sums())


def with_jobs(
    summed: Iterable[Mapping[str, Any]], runs: QuerySet[Run], facet: Facet
) -> list[Group]:
    """The groups of a page, with the jobs in them."""
    summed = list(summed)
    jobs: dict[str, list[GroupedJob]] = defaultdict(list)
    for row in grouped_jobs(runs, facet, [group["value"] for group in summed]):
        if len(jobs[row["value"]]) < MOST_JOBS:
            jobs[row["value"]].append(_job(row))
    copied = ("value", "job_count", "run_count", "spend_usd", "unpriced_count")
    return [
        Group(**{name: group[name] for name in copied}, jobs=jobs[group["value"]])
        for group in summed
    ]


def grouped_jobs(runs: QuerySet[Run], facet: Facet, values: list[str] | None = None) -> Rows:
    """A row for each group and job, for the groups in `values` or for all."""
    valued = _valued(runs, facet)
    wanted = valued if values is None else valued.filter(value__in=values)
    rows = _with_sums(wanted.values("value", "job", "job__name", "job__uuid"))
    return rows.order_by("value", F("spend_usd").desc(nulls_last=True), "job__name")


def _valued(runs: QuerySet[Run], facet: Facet) -> QuerySet[Any, Any]:
    valued: QuerySet[Any, Any] = dated(runs).annotate(value=facet.value())
    return valued


def _with_sums(rows: Rows) -> Rows:
    summed: Rows = rows.annotate(**sums(), last_at=Max("began"))
    return summed


def _job(row: Mapping[str, Any]) -> GroupedJob:
    copied = ("run_count", "spend_usd", "unpriced_count", "last_at")
    sums = {name: row[name] for name in copied}
    return GroupedJob(name=row["job__name"], uuid=row["job__uuid"], **sums)

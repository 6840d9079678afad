"""The list of jobs by owner or by a tag, with what each group spent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Max, QuerySet

from webapp.dashboard.selectors.facets import Facet
from webapp.dashboard.selectors.jobs import Rows, runs_with_start, sums
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


def groups(runs: QuerySet[Run], facet: Facet) -> list[Group]:
    """Return the totals of each group and its jobs, highest spend first.

    In one query, since the value of a tag is read from the text of each run.
    """
    by_value: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in grouped_jobs(runs, facet):
        by_value[row["value"]].append(row)
    every = [_group(value, rows) for value, rows in by_value.items()]
    return sorted(every, key=lambda group: (group.spend_usd is None, -(group.spend_usd or 0)))


def totals(runs: QuerySet[Run]) -> dict[str, Any]:
    """Return the totals of all groups."""
    return runs_with_start(runs).aggregate(job_count=Count("job", distinct=True), **sums())


def grouped_jobs(runs: QuerySet[Run], facet: Facet) -> Rows:
    """Return a row for each group and job: by group, and the highest spend first."""
    valued: QuerySet[Any, Any] = runs_with_start(runs).annotate(value=facet.value())
    by_job = valued.values("value", "job", "job__name", "job__uuid")
    rows: Rows = by_job.annotate(**sums(), last_at=Max("began"))
    return rows.order_by("value", F("spend_usd").desc(nulls_last=True), "job__name")


def _group(value: str, rows: Sequence[Mapping[str, Any]]) -> Group:
    priced = [row["spend_usd"] for row in rows if row["spend_usd"] is not None]
    return Group(
        value=value,
        job_count=len(rows),
        run_count=sum(row["run_count"] for row in rows),
        spend_usd=sum(priced, Decimal(0)) if priced else None,
        unpriced_count=sum(row["unpriced_count"] for row in rows),
        jobs=[_job(row) for row in rows[:MOST_JOBS]],
    )


def _job(row: Mapping[str, Any]) -> GroupedJob:
    copied = ("run_count", "spend_usd", "unpriced_count", "last_at")
    sums = {name: row[name] for name in copied}
    return GroupedJob(name=row["job__name"], uuid=row["job__uuid"], **sums)

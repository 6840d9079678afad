"""Parses the URL of the list of runs: filters and order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Sum
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date

from rules.ledger_labels import LABELS
from webapp.accounts.models import Workspace
from webapp.analysis.models import LedgerEntry
from webapp.dashboard.selectors.job_filter import JobFilter
from webapp.database.money import UsdField
from webapp.runs.models import Run, began
from webapp.spend import months
from webapp.spend.months import Month

LONGEST_DAYS = 366
MOST_CHARS = 200
NO_PRICE = "none"


@dataclass(frozen=True)
class RunFilter:
    """Filter by the URL:
    `?state=running|finished|...&label=LABEL&days=30&day=2026-11-03&month=2026-11&job=NAME&price=none`,
    and owner and tags as in the list of jobs. Invalid values are ignored. With a label, the runs
    that lost most by it come first.
    """

    state: str
    label: str
    days: int | None
    """Runs that began within the last days; None: all."""
    day: date | None
    """Runs that held machines on this UTC day."""
    month: Month | None
    """Runs that held machines in this month of the workspace."""
    job: str
    """The job's name."""
    is_unpriced: bool
    """Runs that have no price."""
    of_jobs: JobFilter
    """Owner and tags."""

    @classmethod
    def from_query(cls, query: QueryDict, workspace: Workspace) -> RunFilter:
        state, label = query.get("state", ""), query.get("label", "")
        days = query.get("days", "")
        try:
            day = parse_date(query.get("day", ""))
        except ValueError:
            day = None
        return cls(
            month=_month(query.get("month", ""), workspace),
            job=query.get("job", "").replace("\0", "")[:MOST_CHARS],
            is_unpriced=query.get("price") == NO_PRICE,
            of_jobs=replace(JobFilter.from_query(query), text=""),
            state=state if state in dict(Run.STATES) else "",
            label=label if label in LABELS else "",
            days=min(int(days), LONGEST_DAYS) if days.isdecimal() and 0 < len(days) < 5 else None,
            day=day,
        )

    @property
    def is_all(self) -> bool:
        given = (self.state, self.label, self.days, self.day, self.month, self.job)
        return not any(given) and not self.is_unpriced and not self.of_jobs.filters_runs

    @property
    def words(self) -> list[str]:
        """The filters that have no field of their own."""
        words = [self.job] if self.job else []
        words += [f"on {self.day} (UTC)"] if self.day else []
        words += [self.month.title] if self.month else []
        words += ["without a price"] if self.is_unpriced else []
        words += [f"owner {self.of_jobs.owner}"] if self.of_jobs.owner else []
        return [*words, *self.of_jobs.tag_words]

    def rows(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        """Return the runs, with `lost_usd`, the cost of the label, if there is one."""
        if self.state:
            runs = runs.filter(state=self.state)
        if self.days:
            since = timezone.now() - timedelta(days=self.days)
            runs = runs.filter(started_at__gte=since)
        if self.day:
            midnight = datetime.combine(self.day, time(), UTC)
            runs = runs.filter(cost_parts__day=midnight.date()).distinct()
        runs = self._of_links(runs)
        newest = began().desc()
        if not self.label:
            return runs.order_by(newest, "-number")
        own = LedgerEntry.objects.filter(run=OuterRef("pk"), label=self.label).order_by()
        summed = own.values("run").annotate(usd=Sum("usd"), microseconds=Sum("microseconds"))
        lost = runs.annotate(
            lost_usd=Subquery(summed.values("usd"), output_field=UsdField()),
            lost_microseconds=Subquery(summed.values("microseconds")),
        ).filter(lost_microseconds__gt=0)
        return lost.order_by(F("lost_usd").desc(nulls_last=True), "-lost_microseconds")

    def _of_links(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        """Filter by what only links from other pages ask for."""
        runs = self.of_jobs.runs(runs)
        if self.job:
            runs = runs.filter(job__name=self.job)
        if self.is_unpriced:
            runs = runs.filter(cost_usd=None)
        if self.month:
            began_before = runs.alias(began=began()).filter(began__lt=self.month.end)
            goes_on = Q(ended_at__gte=self.month.start) | Q(state=Run.RUNNING)
            runs = began_before.filter(goes_on | Q(began__gte=self.month.start))
        return runs


def _month(text: str, workspace: Workspace) -> Month | None:
    try:
        return months.parse_month(text, workspace, timezone.now()) if text else None
    except ValueError:
        return None

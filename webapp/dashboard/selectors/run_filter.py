"""Parses the URL of the list of runs: filters and order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import F, OuterRef, QuerySet, Subquery, Sum
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date

from rules.ledger_labels import LABELS
from webapp.analysis.models import LedgerEntry
from webapp.database.money import UsdField
from webapp.runs.models import Run, began

LONGEST_DAYS = 366


@dataclass(frozen=True)
class RunFilter:
    """`?state=running|finished|...&label=LABEL&days=30&day=2026-11-03`. Invalid values are
    ignored. With a label, the runs that lost most by it come first."""

    state: str
    label: str
    days: int | None
    """Runs that began within the last days; None: all."""
    day: date | None
    """Runs that held machines on this UTC day."""

    @classmethod
    def of(cls, query: QueryDict) -> RunFilter:
        state, label = query.get("state", ""), query.get("label", "")
        days = query.get("days", "")
        try:
            day = parse_date(query.get("day", ""))
        except ValueError:
            day = None
        return cls(
            state=state if state in dict(Run.STATES) else "",
            label=label if label in LABELS else "",
            days=min(int(days), LONGEST_DAYS) if days.isdecimal() and 0 < len(days) < 5 else None,
            day=day,
        )

    @property
    def is_all(self) -> bool:
        return not (self.state or self.label or self.days or self.day)

    def rows(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        """With `lost_usd`, the cost of the label, if there is one."""
        if self.state:
            runs = runs.filter(state=self.state)
        if self.days:
            since = timezone.now() - timedelta(days=self.days)
            runs = runs.filter(started_at__gte=since)
        if self.day:
            midnight = datetime.combine(self.day, time(), UTC)
            runs = runs.filter(cost_parts__day=midnight.date()).distinct()
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

"""What was spent on each UTC day of the last months, by job, owner and tags."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal

from django.db.models import Min, Sum

from advisor.costing.forecast import HISTORY
from webapp.accounts.models import Workspace
from webapp.runs.models import Job
from webapp.spend.scope import priced_parts_of
from webapp.spend.sums import Spend, Spends, columns


@dataclass(frozen=True)
class Daily:
    """`usd` by day; a day that is missing cost nothing. `first_day` is that of the first cost ever;
    None: there is none."""

    usd: dict[date, Decimal]
    first_day: date | None


class DailySpends:
    """Of a workspace until `now`, or of one job; without probes, which are no rhythm."""

    def __init__(self, workspace: Workspace, now: datetime, job: Job | None = None) -> None:
        parts = priced_parts_of(workspace)
        parts = (parts if job is None else parts.filter(run__job=job)).order_by()
        parts = parts.filter(run__probe__isnull=True)
        groups, today = Spends(), now.astimezone(UTC).date()
        recent = parts.filter(day__gt=today - HISTORY, day__lte=today)
        self._days = [
            (groups.of(row, "run__"), row["day"], row["sum_usd"])
            for row in recent.values("day", *columns("run__")).annotate(sum_usd=Sum("usd"))
        ]
        began = parts.filter(day__lte=today).values(*columns("run__")).annotate(first=Min("day"))
        self._first_days = [(groups.of(row, "run__"), row["first"]) for row in began]

    def of(self, covers: Callable[[Spend], bool]) -> Daily:
        """Of the groups that are covered."""
        usd: defaultdict[date, Decimal] = defaultdict(Decimal)
        for spend, day, day_usd in self._days:
            if covers(spend):
                usd[day] += day_usd
        first_days = [day for spend, day in self._first_days if covers(spend)]
        return Daily(dict(usd), min(first_days, default=None))

"""The state of each budget of a workspace this month."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from advisor.costing.budget import (
    FORECAST_OVER,
    OK,
    OVER,
    OVER_THRESHOLD,
    STATES,
    Standing,
)
from advisor.costing.forecast import forecast
from webapp.accounts.models import Workspace
from webapp.runs.models import Job
from webapp.spend.daily import Daily, daily_spends
from webapp.spend.models import Budget
from webapp.spend.months import Month, current_month
from webapp.spend.scope import budgets_of
from webapp.spend.sums import Edge, edges, whole_days
from webapp.spend.table import NONE

WORDS = {
    OK: "Within budget",
    FORECAST_OVER: "Forecast over budget",
    OVER_THRESHOLD: "Over threshold",
    OVER: "Over budget",
}
WIDTH = 1000


@dataclass(frozen=True)
class BudgetLine:
    """A budget's state this month. The figures of its bar are for a box `WIDTH` wide."""

    budget: Budget
    month: Month
    standing: Standing
    unpriced_count: int
    """The month's runs without a price, which the budget can't count."""

    @property
    def state(self) -> str:
        return self.standing.state

    @property
    def tag(self) -> str:
        """Return the tag as the list of runs takes it; empty if the budget isn't of a tag."""
        key = self.budget.tag_key
        return f"{key}={self.budget.tag_value or NONE}" if key else ""

    @property
    def words(self) -> str:
        return WORDS[self.state]

    @property
    def spent_pct(self) -> float:
        return float(100 * self.standing.spent_usd / self.standing.amount_usd)

    @property
    def spent_width(self) -> float:
        return self._width(self.standing.spent_usd)

    @property
    def forecast_width(self) -> float:
        return self._width(self._end_usd)

    @property
    def amount_x(self) -> float:
        return self._width(self.standing.amount_usd)

    @property
    def threshold_x(self) -> float:
        return self._width(self.standing.threshold_usd)

    @property
    def _end_usd(self) -> Decimal:
        forecast_usd = self.standing.forecast_usd
        return self.standing.spent_usd if forecast_usd is None else forecast_usd

    def _width(self, usd: Decimal) -> float:
        whole = max(self.standing.amount_usd * Decimal("1.1"), self._end_usd)
        return round(float(usd / whole) * WIDTH, 1)


def standings(workspace: Workspace, budgets: Iterable[Budget], now: datetime) -> list[BudgetLine]:
    """Return the budgets in the month of `now`, the worst state first."""
    wanted = list(budgets)
    if not wanted:
        return []
    month = current_month(workspace, now)
    jobs = {budget.job_id for budget in wanted if budget.job_id is not None}
    is_of_jobs = all(budget.job_id for budget in wanted)
    begun = edges(workspace, month.start, month.end, jobs if is_of_jobs else None)
    lines = []
    for budget, daily in zip(wanted, daily_spends(workspace, wanted, now), strict=True):
        own = [each for each in begun if covers(budget, each)]
        spent = _whole_days_usd(daily, month) + sum((each.usd for each in own), Decimal(0))
        unpriced = sum(each.unpriced_count for each in own)
        lines.append(
            BudgetLine(budget, month, _standing(budget, spent, daily, month, now), unpriced)
        )
    return sorted(lines, key=lambda line: -STATES.index(line.state))


def _whole_days_usd(daily: Daily, month: Month) -> Decimal:
    """Return the spend of the UTC days that are entirely within the month."""
    first, after = whole_days(month.start, month.end)
    return sum((usd for day, usd in daily.usd.items() if first <= day < after), Decimal(0))


def _standing(
    budget: Budget, spent_usd: Decimal, daily: Daily, month: Month, now: datetime
) -> Standing:
    known = forecast(spent_usd, daily.usual_usd, daily.first_day, now, month.start, month.end)
    limits = (budget.amount_usd, budget.threshold_pct, spent_usd)
    if known is None:
        return Standing(*limits)
    return Standing(*limits, known.usd, known.low_usd, known.high_usd)


def standing_of(job: Job, now: datetime) -> BudgetLine | None:
    """Return the state of the job's own budget in the month of `now`; None if the job has none."""
    lines = standings(job.workspace, budgets_of(job.workspace).filter(job=job), now)
    return lines[0] if lines else None


def covers(budget: Budget, edge: Edge) -> bool:
    if budget.job_id is not None:
        return budget.job_id == edge.job_id
    if budget.tag_key:
        tags = edge.tags
        return budget.tag_key in tags and str(tags[budget.tag_key]) == budget.tag_value
    return True

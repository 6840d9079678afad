"""The state of each budget of a workspace this month."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial

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
from webapp.spend.daily import Daily, DailySpends
from webapp.spend.models import Budget
from webapp.spend.months import Month, current
from webapp.spend.scope import budgets_of
from webapp.spend.sums import Spend, spends

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
    """Budgets in the month of `now`, the worst state first."""
    wanted = list(budgets)
    if not wanted:
        return []
    month = current(workspace, now)
    jobs = {budget.job for budget in wanted}
    job = jobs.pop() if len(jobs) == 1 else None
    spent = spends(workspace, month.start, month.end, job)
    daily = DailySpends(workspace, now, job)
    lines = []
    for budget in wanted:
        own = daily.of(partial(covers, budget))
        standing = _standing(budget, _usd(budget, spent), own, month, now)
        unpriced = sum(each.unpriced_count for each in _covered(budget, spent))
        lines.append(BudgetLine(budget, month, standing, unpriced))
    return sorted(lines, key=lambda line: -STATES.index(line.state))


def _standing(
    budget: Budget, spent_usd: Decimal, daily: Daily, month: Month, now: datetime
) -> Standing:
    known = forecast(spent_usd, daily.usd, daily.first_day, now, month.start, month.end)
    limits = (budget.amount_usd, budget.threshold_pct, spent_usd)
    if known is None:
        return Standing(*limits)
    return Standing(*limits, known.usd, known.low_usd, known.high_usd)


def standing_of(job: Job, now: datetime) -> BudgetLine | None:
    """The state of the job's own budget in the month of `now`; None: the job has none."""
    lines = standings(job.workspace, budgets_of(job.workspace).filter(job=job), now)
    return lines[0] if lines else None


def _usd(budget: Budget, spent: Iterable[Spend]) -> Decimal:
    return sum((each.usd or Decimal(0) for each in _covered(budget, spent)), Decimal(0))


def _covered(budget: Budget, spent: Iterable[Spend]) -> list[Spend]:
    return [each for each in spent if covers(budget, each)]


def covers(budget: Budget, spend: Spend) -> bool:
    if budget.job_id is not None:
        return budget.job_id == spend.job_id
    if budget.tag_key:
        tags = spend.tags
        return budget.tag_key in tags and str(tags[budget.tag_key]) == budget.tag_value
    return True

"""Records an alert when a budget reaches a worse state in a month, once per state."""

from __future__ import annotations

from datetime import datetime

from advisor.costing.budget import OK, STATES
from webapp.accounts.models import Workspace
from webapp.spend.budget_status import BudgetLine, standings
from webapp.spend.models import BudgetAlert
from webapp.spend.scope import budgets_of


def record_alerts(now: datetime) -> int:
    """Check every budget; returns the number of new alerts. Repeating it adds none."""
    kept = Workspace.objects.filter(deleted_at=None, budgets__isnull=False).distinct()
    return sum(_record(line) for each in kept for line in standings(each, budgets_of(each), now))


def _record(line: BudgetLine) -> bool:
    """Record the state, and return whether it is new. A state better than an earlier one of the
    month is not new.
    """
    if line.state == OK:
        return False
    worse_or_same = STATES[STATES.index(line.state) :]
    month = line.month.first_day
    if line.budget.alerts.filter(month=month, state__in=worse_or_same).exists():
        return False
    _, is_new = BudgetAlert.objects.get_or_create(
        budget=line.budget, month=month, state=line.state, defaults=_figures(line)
    )
    return is_new


def _figures(line: BudgetLine) -> dict[str, object]:
    standing = line.standing
    return {
        "spent_usd": standing.spent_usd,
        "forecast_usd": standing.forecast_usd,
        "forecast_low_usd": standing.low_usd,
        "forecast_high_usd": standing.high_usd,
        "amount_usd": standing.amount_usd,
    }

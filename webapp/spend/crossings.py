"""Notes once a month when a budget comes to a worse state, so that it can be told."""

from __future__ import annotations

from datetime import datetime

from advisor.costing.budget import OK, STATES
from webapp.accounts.models import Workspace
from webapp.spend.budget_status import BudgetLine, standings
from webapp.spend.models import Crossing
from webapp.spend.scope import budgets_of


def watch(now: datetime) -> int:
    """Look at every budget; how many crossings are new. Once more writes nothing more."""
    kept = Workspace.objects.filter(deleted_at=None, budgets__isnull=False).distinct()
    return sum(_cross(line) for each in kept for line in standings(each, budgets_of(each), now))


def _cross(line: BudgetLine) -> bool:
    """A state that is better than one of before is no news."""
    if line.state == OK:
        return False
    worse_or_same = STATES[STATES.index(line.state) :]
    month = line.month.first_day
    if line.budget.crossings.filter(month=month, state__in=worse_or_same).exists():
        return False
    _, is_new = Crossing.objects.get_or_create(
        budget=line.budget, month=month, state=line.state, defaults=_figures(line)
    )
    return is_new


def _figures(line: BudgetLine) -> dict[str, object]:
    standing = line.standing
    figures = ("spent_usd", "forecast_usd", "amount_usd")
    return {name: getattr(standing, name) for name in figures}

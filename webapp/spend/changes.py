"""Creates, changes and deletes budgets, each with an audit entry."""

from __future__ import annotations

from decimal import Decimal

from django.db import transaction
from django.utils import timezone

from advisor.money import plain_usd
from webapp.accounts import audit
from webapp.accounts.audit import Change
from webapp.accounts.models import User
from webapp.spend.models import Budget

FIELDS = ("amount_usd", "threshold_pct")


@transaction.atomic
def create_budget(budget: Budget, actor: User) -> None:
    budget.save()
    _record(budget, actor, "budget.made", {n: (None, _plain(budget, n)) for n in FIELDS})


@transaction.atomic
def change(budget: Budget, actor: User, amount_usd: Decimal, threshold_pct: int) -> None:
    """Changes amount and threshold only. A budget can't move to another subject."""
    before = {name: _plain(budget, name) for name in FIELDS}
    budget.amount_usd, budget.threshold_pct = amount_usd, threshold_pct
    budget.save(update_fields=FIELDS)
    changed = {n: (before[n], _plain(budget, n)) for n in FIELDS if before[n] != _plain(budget, n)}
    if changed:
        _record(budget, actor, "budget.changed", changed)


@transaction.atomic
def delete(budget: Budget, actor: User) -> None:
    budget.deleted_at = timezone.now()
    budget.save(update_fields=["deleted_at"])
    _record(budget, actor, "budget.deleted", {n: (_plain(budget, n), None) for n in FIELDS})


@transaction.atomic
def restore(budget: Budget, actor: User) -> bool:
    """Restore a budget. Returns False if the subject has another budget by now."""
    same = {name: getattr(budget, name) for name in ("workspace", "job", "tag_key", "tag_value")}
    if Budget.objects.filter(**same, deleted_at=None).exists():
        return False
    budget.deleted_at = None
    budget.save(update_fields=["deleted_at"])
    _record(budget, actor, "budget.restored", {n: (None, _plain(budget, n)) for n in FIELDS})
    return True


def _record(budget: Budget, actor: User, action: str, change: Change) -> None:
    audit.record(budget.workspace, actor, action, f"{budget.kind}: {budget}", change)


def _plain(budget: Budget, name: str) -> object:
    value = getattr(budget, name)
    return value if isinstance(value, int) else plain_usd(value)

"""Mends what rows say about time after the service's clock was set back.

A row that was written while the clock was ahead is due, leased and finished in the future. It would
wait until the clock is there again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.functions import Greatest
from django.utils import timezone

from webapp.background import conditions, waking
from webapp.background.kinds import WorkKind, all_kinds


def mend_rows(set_back: timedelta) -> None:
    """Bring what is due later forward by as much as the clock was set back, and end leases no later
    than new ones. Nothing is harmed by work that comes early."""
    now = timezone.now()
    for kind in all_kinds():
        for column in ("due_at", "waiting_since"):
            earlier = Greatest(F(column) - set_back, now)
            _later(kind, column, now).filter(conditions.has_news()).update(**{column: earlier})
        last = now + kind.limits.lease
        _later(kind, "leased_until", last).update(leased_until=last)
        for column in kind.past:
            _later(kind, column, now).update(**{column: now})
    waking.wake()


def _later(kind: WorkKind[Any], column: str, moment: datetime) -> QuerySet[Any]:
    """Return the rows with a later time, without those that another transaction has locked: it
    writes them by the clock as it is now, and waiting for several could be a deadlock.
    """
    rows = kind.rows.filter(**{f"{column}__gt": moment})
    return kind.rows.filter(pk__in=rows.select_for_update(skip_locked=True).values("pk"))

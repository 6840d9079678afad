"""How a newly seen price follows the ones that are known: rows are closed, never changed."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

_NEXT = timedelta(microseconds=1)


def starts_at(
    known_usd: Decimal,
    known_from: datetime,
    known_seen_at: datetime,
    seen_usd: Decimal,
    effective_from: datetime,
    now: datetime,
) -> datetime | None:
    """Since when another price follows the known one; None: it is the same.

    That is the day that the provider names, unless the old price was seen after it (then the day
    can't be right, and it is the moment at which the new one was first seen).
    """
    if seen_usd == known_usd:
        return None
    latest = max(known_from, known_seen_at)
    return effective_from if latest < effective_from else max(now, latest + _NEXT)

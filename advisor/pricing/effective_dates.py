"""The start date of a newly seen price. Known rows are ended, never changed."""

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
    """Return when the new price starts to replace the known one; None if it is the same.

    This is the provider's date, unless the old price was seen after it. Then that date is wrong,
    and the new price starts when it was first seen.
    """
    if seen_usd == known_usd:
        return None
    latest = max(known_from, known_seen_at)
    return effective_from if latest < effective_from else max(now, latest + _NEXT)

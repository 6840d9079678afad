"""Claims as a worker makes them, one at a time."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from webapp.background import claims, fairness
from webapp.background.kinds import WorkKind


def claim_next(kind: WorkKind[Any]) -> claims.WorkClaim[Any] | None:
    """Claim the first row that can be claimed, of those whose turn it is; None if there is none."""
    now = timezone.now()
    for key in fairness.in_turn(kind, 50, now):
        held = claims.claim(kind, key, due_at__lte=now)
        if held is not None:
            return held
    return None

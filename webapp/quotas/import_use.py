"""Counts what the imports of each workspace use, in the database.

Imports are few and dear, so each attempt is a write. Redis isn't asked: these quotas hold without
it, and nobody gets them back by making it lose its data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from django.db import transaction
from django.db.models import BigIntegerField, F, Value

from webapp.accounts.models import Workspace
from webapp.quotas import counters, scripts
from webapp.quotas.kinds import IMPORT_CPU, IMPORTS, OF_IMPORTS, UNPACKED, Quota
from webapp.quotas.models import ImportUse
from webapp.quotas.refusals import frees_at_hour

KEPT_HOURS = 35 * 24
_AMOUNTS: dict[str, Callable[[ImportUse], int]] = {
    IMPORTS.name: lambda row: row.imports,
    UNPACKED.name: lambda row: row.unpacked_bytes,
    # The amount is rounded up, so that what is used in many small parts is never shown as nothing.
    IMPORT_CPU.name: lambda row: math.ceil(row.cpu_seconds),
}


@dataclass(frozen=True)
class Usage:
    """Use of one quota within its window.

    Attributes:
        by_hour: hour since 1970 -> amount, of the last 24 hours.
        limit: 0: none.
    """

    quota: Quota
    by_hour: dict[int, int]
    limit: int

    @property
    def used(self) -> int:
        return sum(self.by_hour.values())

    @property
    def left(self) -> int | None:
        """Return what may still be used, or None for any amount."""
        return max(self.limit - self.used, 0) if self.limit else None

    def frees_at_hour(self) -> int:
        """Return the hour since 1970 from which on less than the limit is used."""
        hour = counters.hour_now()
        return frees_at_hour(self.by_hour, hour, 1, min(self.used, self.limit or self.used))


def usages(workspace: Workspace) -> list[Usage]:
    """Return what is used of each quota of imports, in the order of `OF_IMPORTS`."""
    hour = counters.hour_now()
    # Later hours than the next one come from a clock that ran ahead, as in `counters.amounts`.
    window = {"hour__gt": hour - scripts.HOURS, "hour__lte": hour + 1}
    rows = list(ImportUse.objects.filter(workspace=workspace, **window))
    return [_usage(workspace, quota, rows) for quota in OF_IMPORTS]


def add(workspace_id: int, cpu_seconds: float, unpacked_bytes: int) -> None:
    """Count one attempt in the current hour."""
    hour = counters.hour_now()
    # Without the cast, PostgreSQL would take the number for one of 32 bits as a sum's part.
    unpacked = Value(max(unpacked_bytes, 0), output_field=BigIntegerField())
    with transaction.atomic():
        row, _ = ImportUse.objects.get_or_create(workspace_id=workspace_id, hour=hour)
        ImportUse.objects.filter(pk=row.pk).update(
            imports=F("imports") + 1,
            unpacked_bytes=F("unpacked_bytes") + unpacked,
            cpu_seconds=F("cpu_seconds") + max(cpu_seconds, 0.0),
        )


def delete_old() -> None:
    """Delete the hours that are no longer counted or looked at."""
    ImportUse.objects.filter(hour__lt=counters.hour_now() - KEPT_HOURS).delete()


def _usage(workspace: Workspace, quota: Quota, rows: list[ImportUse]) -> Usage:
    amounts = {row.hour: _AMOUNTS[quota.name](row) for row in rows}
    held = {hour: amount for hour, amount in sorted(amounts.items()) if amount}
    return Usage(quota, held, quota.limit(workspace))

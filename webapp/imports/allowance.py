"""Limits what a workspace's imports may use in 24 hours: attempts, unpacked bytes and CPU time.

Each attempt to convert counts when it ends, failed ones included (`charge`). An upload is refused
while nothing is left, and what is queued already waits. One workspace has one conversion under way
at a time, so nothing is reserved before.

How far a quota can be overrun: one conversion gets what is left, so it ends at the limit, plus what
it uses until it is noticed. An attempt whose worker is killed before `charge` isn't counted: it may
use what was left again, as often as a row may kill workers. Uploads that are checked at the
same moment may all be queued, but what they then use is bounded as above.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

from webapp.accounts.models import Workspace
from webapp.background import conditions
from webapp.imports.models import WHOLE, Import
from webapp.quotas import counters, import_use, refusals
from webapp.quotas.kinds import IMPORT_CPU, IMPORTS, UNPACKED, Quota


@dataclass(frozen=True)
class ImportAllowance:
    """Amounts that one more conversion may use now. Without a limit, they are `math.inf` and
    `sys.maxsize`.
    """

    cpu_seconds: float
    unpacked_bytes: int


@dataclass(frozen=True)
class Pause:
    """No import of the workspace begins before `until`, because this quota is used up."""

    quota: Quota
    until: datetime
    words: str
    """The reason as a sentence."""


def check(workspace: Workspace) -> None:
    """Refuse to queue another import while a quota is used up. Call before anything is written.

    Raises:
        Problem: 429; its field is the quota's name.
    """
    for each in import_use.usages(workspace):
        left = each.left
        if left is not None and left <= (_waiting(workspace, left) if each.quota is IMPORTS else 0):
            refusals.refuse_import(workspace, each.quota, each.frees_at_hour())


def check_kind(workspace: Workspace, kind: str) -> None:
    """Refuse an artefact of this kind as `check` does, if it is an upload to be imported.

    A profile is kept and waits: its agent sends it unasked, and has samples to send.
    """
    if kind == WHOLE:
        check(workspace)


def remaining_allowance(workspace: Workspace) -> ImportAllowance:
    """Return what one more conversion may use now; nothing, if it may not begin."""
    left = {each.quota: each.left for each in import_use.usages(workspace)}
    if left[IMPORTS] == 0:
        return ImportAllowance(0.0, 0)
    cpu_seconds, unpacked_bytes = left[IMPORT_CPU], left[UNPACKED]
    return ImportAllowance(
        math.inf if cpu_seconds is None else float(cpu_seconds),
        sys.maxsize if unpacked_bytes is None else unpacked_bytes,
    )


def pause(workspace: Workspace) -> Pause | None:
    """Return until when the workspace's imports wait, or None if one may begin now."""
    full = [each for each in import_use.usages(workspace) if each.left == 0]
    if not full:
        return None
    last = max(full, key=lambda each: each.frees_at_hour())
    seconds = last.frees_at_hour() * counters.HOUR_SECONDS
    words = refusals.reached_words(last.quota, workspace)
    return Pause(last.quota, datetime.fromtimestamp(seconds, UTC), words)


def charge(row: Import, cpu_seconds: float, unpacked_bytes: int) -> None:
    """Count one attempt at this import, whether it succeeded or not.

    In a transaction, call it last: it locks the workspace's row of this hour.
    """
    import_use.add(row.artefact.run.workspace_id, cpu_seconds, unpacked_bytes)


def _waiting(workspace: Workspace, most: int) -> int:
    """Return how many uploads are queued, at most `most`. Profiles don't count: they are never
    refused."""
    own = Import.objects.filter(artefact__kind=WHOLE, artefact__run__workspace=workspace)
    queued = own.filter(conditions.is_open(), conditions.due_or_later())
    return queued.order_by()[:most].count()

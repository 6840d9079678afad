"""Refuses an upload beyond a quota, and remembers it, so that the run's page can say why."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn
from uuid import UUID

from webapp.accounts.models import Workspace
from webapp.http.problems import Problem
from webapp.quotas import counters, scripts
from webapp.quotas.kinds import BY_NAME, Quota
from webapp.runs.models import Run

LEAST_SECONDS, MOST_SECONDS = 60, 3600
"""The bounds of Retry-After. Agents wait an hour at most, so that they notice a raised limit by
then."""
REMEMBERED_SECONDS = 2 * MOST_SECONDS
LOGGED_EVERY_SECONDS = 60

logger = logging.getLogger(__name__)
_logged_at: dict[str, float] = {}
"""Monotonic seconds, by quota."""


@dataclass(frozen=True)
class QuotaRefusal:
    """Refusal of a run's last upload because of this quota."""

    quota: Quota
    at: datetime
    words: str


def refuse(
    workspace: Workspace, run_id: UUID, quota: Quota, window: str = "", cost: int = 0
) -> NoReturn:
    """Refuse an upload. `window` is the key of the quota's counter, if it has one, and `cost` what
    the upload adds there.
    """
    _remember(run_id, quota)
    _log(workspace, quota)
    limit = quota.limit(workspace)
    wait_seconds = _bounded(_seconds_until_room(window, cost, limit) if window else MOST_SECONDS)
    fix = (
        f"{quota.fix}Nothing is lost: agents keep their samples and try again. The operator of the "
        "service can raise the limit."
    )
    raise Problem(
        429,
        reached_words(quota, workspace),
        fix=fix,
        headers={"Retry-After": str(wait_seconds)},
        kind="quota",
    )


def refuse_import(workspace: Workspace, quota: Quota, free_hour: int) -> NoReturn:
    """Refuse to begin an import. Raises Problem 429, whose field is the quota's name.

    Args:
        free_hour: the hour since 1970 from which on there may be room.
    """
    _log(workspace, quota)
    fix = (
        f"{quota.fix}Nothing is lost: `trimtab sync` sends later what `trimtab import` has packed. "
        "The operator of the service can raise the limit."
    )
    wait_seconds = free_hour * counters.HOUR_SECONDS - time.time()
    headers = {"Retry-After": str(_bounded(wait_seconds))}
    raise Problem(429, reached_words(quota, workspace), quota.name, fix, headers, "import-quota")


def frees_at_hour(amounts: dict[int, int], hour: int, cost: int, limit: int) -> int:
    """Return the hour since 1970 from which on `cost` more is within the limit, at most 24 from
    now.

    Args:
        amounts: hour -> amount, of the hours that still count.
    """
    used = sum(amounts.values())
    for each in sorted(amounts):
        if used + cost <= limit:
            break
        used -= amounts[each]
        hour = each + scripts.HOURS
    return hour


def last_refusal(run: Run) -> QuotaRefusal | None:
    """Return the refusal of the run's last upload; None if it was accepted, or the last try was
    long ago, or Redis is down.
    """
    said = counters.ask_redis(lambda known: known.redis.get(counters.refusal(run.pk)), None)
    if not isinstance(said, bytes):
        return None
    name, _, seconds = said.decode().partition(" ")
    at = datetime.fromtimestamp(float(seconds), UTC)
    if at < run.last_received_at:
        return None
    return QuotaRefusal(BY_NAME[name], at, reached_words(BY_NAME[name], run.workspace))


def reached_words(quota: Quota, workspace: Workspace) -> str:
    """Return the sentence that says that the quota is used up."""
    return quota.reached.format(limit=quota.words(quota.limit(workspace)))


def _bounded(wait_seconds: float) -> int:
    return min(max(math.ceil(wait_seconds), LEAST_SECONDS), MOST_SECONDS)


def _seconds_until_room(window: str, cost: int, limit: int) -> float:
    hour = counters.hour_now()
    nothing: dict[int, int] = {}
    amounts = counters.ask_redis(lambda known: counters.amounts(known.hours(window), hour), nothing)
    free = frees_at_hour(amounts, hour, cost, limit)
    return free * counters.HOUR_SECONDS - time.time()


def _remember(run_id: UUID, quota: Quota) -> None:
    key, said = counters.refusal(run_id), f"{quota.name} {time.time():.6f}"
    counters.ask_redis(lambda known: known.redis.set(key, said, ex=REMEMBERED_SECONDS), None)


def _log(workspace: Workspace, quota: Quota) -> None:
    """Log the refusal once a minute for each quota."""
    now = time.monotonic()
    if now - _logged_at.get(quota.name, -math.inf) >= LOGGED_EVERY_SECONDS:
        _logged_at[quota.name] = now
        facts = {"workspace": workspace.pk, "quota": quota.name}
        logger.warning("an upload is beyond a quota", extra=facts)

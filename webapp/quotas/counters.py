"""The counters of quotas, in Redis.

Uploads matter more than the count: while Redis is down nobody is refused, and nothing is counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast
from uuid import UUID

from django.conf import settings
from redis import RedisError
from redis.commands.core import Script

from webapp.http.redis_outage import Outage, client
from webapp.quotas import scripts
from webapp.quotas.kinds import Quota

HOUR_SECONDS = 3600

Answer = TypeVar("Answer")
_outage = Outage("quotas are off: Redis does not answer")


class Counters:
    """One Redis with its scripts."""

    def __init__(self, url: str) -> None:
        self.redis = client(url)
        self.charge: Script = self.redis.register_script(scripts.read_script("charge"))
        self.add_series: Script = self.redis.register_script(scripts.read_script("add_series"))

    def hours(self, window: str) -> dict[bytes, bytes]:
        """Return the fields of a window."""
        return cast("dict[bytes, bytes]", self.redis.hgetall(window))


@cache
def _counters(url: str) -> Counters:
    return Counters(url)


def ask_redis(question: Callable[[Counters], Answer], otherwise: Answer) -> Answer:
    """Return Redis's answer to the question, or `otherwise` while there is none."""
    return _outage.answer(lambda: question(_counters(settings.REDIS_URL)), otherwise, RedisError)


def hour_now() -> int:
    """Return the whole hours since 1970."""
    return int(time.time()) // HOUR_SECONDS


def window(quota: Quota, subject: int) -> str:
    """Return the key of a quota's window for a workspace or token."""
    return _key(quota.name, subject)


def storage(workspace_id: int) -> str:
    """Return the key of the storage's hash: `counted`, bytes when they were last counted, and
    `since`, accepted after that.
    """
    return _key("storage", workspace_id)


def series(workspace_id: int, hour: int) -> list[str]:
    """Return the keys of the last 24 hours, the current one first."""
    return [_key(f"series:{workspace_id}", hour - age) for age in range(scripts.HOURS)]


def trial(workspace_id: int) -> str:
    """Return the key under which a set of series is tried. It exists only within a script, so
    nobody else sees it.
    """
    return _key("series-tried", workspace_id)


def new_run(run_id: UUID) -> str:
    return _key("run", run_id)


def refusal(run_id: UUID) -> str:
    """Return the key of the reason why the last upload of a run was refused; it is deleted when one
    is accepted.
    """
    return _key("refused", run_id)


def amounts(fields: dict[bytes, bytes], hour: int) -> dict[int, int]:
    """Return the amounts of the hours that still count, by hour."""
    hours = ((field, amount) for field, amount in fields.items() if field.isdigit())
    known = {int(field): int(amount) for field, amount in hours}
    return {each: known[each] for each in sorted(known) if hour - scripts.HOURS < each <= hour + 1}


def _key(kind: str, subject: Any) -> str:
    return f"{settings.CACHES['default']['KEY_PREFIX']}:quota:{kind}:{subject}"

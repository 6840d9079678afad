"""Limits how often tokens, addresses, accounts and people may do something, counted in Redis over a
sliding window.

Uploads matter more than the count: while Redis is down nobody is refused.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from functools import cache
from typing import NoReturn

from django.conf import settings
from limits import RateLimitItemPerMinute
from limits.storage import RedisStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from redis import RedisError

from webapp.http.addresses import to_network
from webapp.http.problems import Problem
from webapp.http.redis_outage import PATIENCE_SECONDS, Outage

HANDFULS, HANDFUL_SECONDS = 1000, 10.0
# The most addresses that one process remembers; then it starts again, which only refuses later.
MOST_REMEMBERED = 10_000

logger = logging.getLogger(__name__)


def address_asks(address: str) -> None:
    """Count a request of an address, whatever its token. Raises Problem 429."""
    wait = handfuls.seconds_to_wait(
        "address", to_network(address), settings.ADDRESS_REQUESTS_A_MINUTE
    )
    if wait:
        _refuse("Too many requests from this IP address.", wait)


def token_asks(token_id: int) -> None:
    """Count a request of a valid token. Raises Problem 429."""
    wait = handfuls.seconds_to_wait("token", str(token_id), settings.TOKEN_REQUESTS_A_MINUTE)
    if wait:
        _refuse("Too many requests with this token.", wait)


def seconds_until_person_may(what: str, user_id: int, per_minute: int) -> int:
    """Count an action of a signed-in person; return 0 if the person may continue."""
    return _outage.seconds_to_wait(what, str(user_id), per_minute)


def seconds_until_address_may(what: str, address: str, most: int, minutes: int) -> int:
    """Count an action that anybody does from an address (IPv6: its /64 network); return 0 if it may
    continue.
    """
    return _outage.seconds_to_wait(f"{what}-address", to_network(address), most, minutes)


def seconds_until_account_may(what: str, email: str, most: int, minutes: int) -> int:
    """Count an action that anybody does to an account, whether or not it exists; return 0 if it may
    continue.

    Redis holds a digest of the email address.
    """
    account = hashlib.sha256(email.encode()).hexdigest()
    return _outage.seconds_to_wait(f"{what}-account", account, most, minutes)


class Guesses:
    """Wrong tokens by address. An address that sent too many is refused before any look-up.

    Only the count is in Redis. Who is refused until when, and who was right before (agents behind
    the same address as the guesser), is remembered by each process, so that asking costs nothing.
    """

    def __init__(self) -> None:
        self._refused_until: dict[str, float] = {}
        self._were_right: set[tuple[str, str]] = set()

    def refuse(self, address: str, digest: str) -> None:
        """Refuse an address that sent too many wrong tokens, before the token is looked up. Raises
        Problem 429.
        """
        wait = self._refused_until.get(to_network(address), 0.0) - time.monotonic()
        if wait > 0 and (to_network(address), digest) not in self._were_right:
            _refuse_guess(math.ceil(wait))

    def was_right(self, address: str, digest: str) -> None:
        if len(self._were_right) >= MOST_REMEMBERED:
            self._were_right.clear()
        self._were_right.add((to_network(address), digest))

    def was_wrong(self, address: str) -> None:
        """Count a wrong token. Raises Problem 429 once there were too many."""
        own = to_network(address)
        wait = _outage.seconds_to_wait("wrong-token", own, settings.WRONG_TOKENS_A_MINUTE)
        if not wait:
            return
        if len(self._refused_until) >= MOST_REMEMBERED:
            self._refused_until.clear()
        self._refused_until[own] = time.monotonic() + wait
        _refuse_guess(wait)


class _Outage(Outage):
    """Outage of the Redis that counts the limits."""

    def __init__(self) -> None:
        super().__init__("rate limits are off: Redis does not answer", logger)

    def seconds_to_wait(
        self, kind: str, who: str, most: int, minutes: int = 1, count: int = 1
    ) -> int:
        """Count `count` requests; return 0 if there was room for them, or no limit, or no Redis."""
        if not most:
            return 0
        item = RateLimitItemPerMinute(most, minutes)
        return self.answer(lambda: _seconds_to_wait(kind, who, item, count), 0, RedisError)


class Handfuls:
    """Counts requests with Redis a thousandth of the limit at a time, and of these none.

    So a limit of 30,000 a minute asks Redis for one of 30 requests, and a small one for each.
    What is not used in time counts as well: a handful in ten seconds is a hundred-and-sixtieth of
    the limit.
    """

    def __init__(self) -> None:
        self._left: dict[tuple[str, str, int], tuple[int, float]] = {}
        """The requests that may still come, and until when (monotonic seconds)."""

    def seconds_to_wait(self, kind: str, who: str, most: int) -> int:
        """Count one request within a minute; return 0 if there is room for it."""
        own, now = (kind, who, most), time.monotonic()
        left, until = self._left.get(own, (0, 0.0))
        if left > 0 and now < until:
            self._left[own] = left - 1, until
            return 0
        count = max(1, most // HANDFULS)
        wait = _outage.seconds_to_wait(kind, who, most, count=count)
        if not wait and count > 1:
            if len(self._left) >= MOST_REMEMBERED:
                self._left.clear()
            self._left[own] = count - 1, now + HANDFUL_SECONDS
        return wait


_outage = _Outage()
guesses = Guesses()
handfuls = Handfuls()


def _seconds_to_wait(kind: str, who: str, item: RateLimitItemPerMinute, count: int) -> int:
    limiter = _limiter(settings.REDIS_URL)
    if limiter.hit(item, kind, who, cost=count):
        return 0
    free_at = limiter.get_window_stats(item, kind, who).reset_time
    return max(1, math.ceil(free_at - time.time()))


@cache
def _limiter(redis_url: str) -> SlidingWindowCounterRateLimiter:
    # The class is named, because the library's factory knows Unix sockets by another scheme.
    storage = RedisStorage(
        redis_url,
        key_prefix=f"{settings.CACHES['default']['KEY_PREFIX']}:limits",
        socket_timeout=PATIENCE_SECONDS,
        socket_connect_timeout=PATIENCE_SECONDS,
    )
    return SlidingWindowCounterRateLimiter(storage)


def _refuse_guess(wait_seconds: int) -> NoReturn:
    _refuse("Too many invalid tokens from this IP address.", wait_seconds)


def _refuse(detail: str, wait_seconds: int) -> NoReturn:
    fix = f"Try again in {wait_seconds} s."
    raise Problem(429, detail, fix=fix, headers={"Retry-After": str(wait_seconds)})

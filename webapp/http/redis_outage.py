"""Leaves a Redis that failed alone for a while: one that hangs must cost requests nothing."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from redis import Redis

PATIENCE_SECONDS = 1
LEFT_ALONE_SECONDS, LOGGED_EVERY_SECONDS = 10, 60

Answer = TypeVar("Answer")


@cache
def client(url: str) -> Redis:
    """Return a client of a Redis that must answer soon, or is taken to have failed."""
    return Redis.from_url(
        url, socket_timeout=PATIENCE_SECONDS, socket_connect_timeout=PATIENCE_SECONDS
    )


class Outage:
    """Asks Redis unless it failed a moment ago, and logs once a minute that it does."""

    def __init__(self, said: str, logger: logging.Logger | None = None) -> None:
        """Create an outage. `said` is what is logged."""
        self._said, self._logger = said, logger or logging.getLogger(__name__)
        self._over_at = self._logged_at = -math.inf

    def answer(
        self,
        ask: Callable[[], Answer],
        otherwise: Answer,
        failure: type[Exception] | tuple[type[Exception], ...],
    ) -> Answer:
        """Return Redis's answer, or `otherwise` if Redis fails or failed a moment ago."""
        if time.monotonic() < self._over_at:
            return otherwise
        try:
            return ask()
        except failure as error:
            self._begin(error)
            return otherwise

    def _begin(self, error: Exception) -> None:
        now = time.monotonic()
        self._over_at = now + LEFT_ALONE_SECONDS
        if now - self._logged_at >= LOGGED_EVERY_SECONDS:
            self._logged_at = now
            self._logger.warning(self._said, extra={"error": type(error).__name__})

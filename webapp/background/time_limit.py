"""Ends work that takes too long, in the pool process that does it.

Celery's own limits are for whole tasks, and a worker does many pieces of work in one.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NoReturn

from celery.exceptions import SoftTimeLimitExceeded

GRACE = timedelta(minutes=1)
"""The time after which work that still continues ends with its process, even if it hangs outside of
Python."""


@contextmanager
def time_limit(longest: timedelta) -> Iterator[None]:
    """Raise SoftTimeLimitExceeded where the work is, after `longest`. Main thread only."""
    handler = signal.signal(signal.SIGALRM, _end)
    left = restart(longest)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)
        signal.signal(signal.SIGALRM, handler)
        faulthandler.cancel_dump_traceback_later()


def restart(longest: timedelta) -> float:
    """Begin the limit that is in force again, because work of many steps has done one.

    Returns the seconds that were left.
    """
    file = sys.__stderr__ or sys.stderr
    faulthandler.dump_traceback_later((longest + GRACE).total_seconds(), exit=True, file=file)
    left, _ = signal.setitimer(signal.ITIMER_REAL, longest.total_seconds())
    return left


def _end(*_: Any) -> NoReturn:
    raise SoftTimeLimitExceeded

"""Bounds of CPU time as they hold on an idle machine: on a busy one the same work takes up to
three times as long."""

from __future__ import annotations

import json
import time

ALONE_SECONDS = 0.012
"""The seconds of `_known_work` on a core of an AMD EPYC that has nothing else to do."""


def is_within(cpu_seconds: float, bound_seconds: float) -> bool:
    """Return whether the work that has just taken so much would keep the bound on a core of its
    own.
    """
    return cpu_seconds <= bound_seconds or cpu_seconds <= bound_seconds * _slowness()


def _slowness() -> float:
    """Return how much longer known work takes now than on a core of its own; 1 or more."""
    return max(1.0, max(_known_work() for _ in range(3)) / ALONE_SECONDS)


def _known_work() -> float:
    """Return the CPU seconds for reading, writing and counting, as parsers do."""
    begun = time.thread_time()
    text = json.dumps([{"name": str(number), "value": number / 7} for number in range(10_000)])
    assert sum(len(each["name"]) for each in json.loads(text)) > 0
    return time.thread_time() - begun

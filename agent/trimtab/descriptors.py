"""Counts how many more files the agent can open. A training may run with a low limit (`ulimit
-n`).
"""

from __future__ import annotations

import os
import resource

RESERVED = 24
"""Files that everything but the sources may need at once: spool, connection, git, a drainer."""
NEEDED = RESERVED + 8
"""The fewest files with which anything can be measured."""


def count_spare_descriptors() -> int:
    """Return how many more files this process can open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 2**31
    try:
        return limit - len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - with Path it takes three
    except OSError:
        return 0


def spare_for_sources() -> int:
    """Return how many files the sources may open and keep."""
    return max(0, count_spare_descriptors() - RESERVED)

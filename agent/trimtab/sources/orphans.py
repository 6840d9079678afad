"""Processes of the run that left its tree: daemons, which fork twice so that init adopts them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

_LOOK_SECONDS = 5.0
_MOST_SHARE = 0.001
"""The most CPU time for looking, as a share of a core: listing a thousand processes takes about a
millisecond."""


class Orphans:
    """Finds them by the run's folder in their environment, or by a session that the run began."""

    def __init__(self, folder: Path | None) -> None:
        self._mark = b"TRIMTAB_RUN_DIR=" + os.fsencode(folder) if folder else b""
        self._looked_at: set[int] = set()
        self._look_at = time.monotonic() + _LOOK_SECONDS

    def look(self, known: Collection[int], seen: Collection[int]) -> list[int]:
        """Return processes that belong to the run and aren't known; at most every five seconds.

        Args:
            known: the living processes of the run.
            seen: all processes that were ever known.
        """
        began = time.monotonic()
        if began < self._look_at:
            return []
        pids = {int(name) for name in os.listdir("/proc") if name.isdecimal()}  # noqa: PTH208
        self._looked_at &= pids
        new = pids - self._looked_at - set(known)
        self._looked_at |= new
        found = [pid for pid in new if self._belongs(pid, seen)]
        children = {pid for pid in found if _parent(pid) in known}
        self._looked_at -= children  # they are found as children, but may leave the tree later
        ended = time.monotonic()
        self._look_at = ended + max(_LOOK_SECONDS, (ended - began) / _MOST_SHARE)
        return [pid for pid in found if pid not in children]

    def _belongs(self, pid: int, seen: Collection[int]) -> bool:
        """Return whether the process belongs to the run. A session keeps the id of the process that
        began it, which nobody else gets meanwhile.
        """
        try:
            if os.getsid(pid) in seen:
                return True
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return bool(self._mark) and self._mark in environment.split(b"\0")


def _parent(pid: int) -> int:
    """Return the parent's id, or 0 if the process has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0

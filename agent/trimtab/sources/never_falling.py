"""A total over processes that come and go."""

from __future__ import annotations

_CONFIRM_READS = 4


class NeverFalling:
    """Total that keeps what a process used that nobody waited for, which is lost with it.

    A child may end between the reads of its parent and of itself. So a fall is first ignored for
    some reads, until the parent's figures include the child. If the fall stays, it is added back.
    """

    def __init__(self) -> None:
        self._shown = 0.0
        self._carried = 0.0
        self._fall = 0.0
        self._reads_below = 0

    def total(self, living: float) -> float:
        now = living + self._carried
        if now >= self._shown:
            self._shown, self._reads_below = now, 0
            return now
        self._reads_below += 1
        if self._reads_below == 1:
            self._fall = self._shown - now
        if self._reads_below > _CONFIRM_READS:
            self._carried += self._fall
            self._reads_below = 0
            self._shown = max(self._shown, living + self._carried)
        return self._shown

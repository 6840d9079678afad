"""Steps by their numbers within the whole training, and which of them were done again.

A training that restarts from a checkpoint counts on from there, so some numbers come twice. The
steps of the first time are **lost**: a `StepRange` that resumes at a number takes back every step
with that number or a higher one that ended before it began.

Not every number that comes again is lost work. A script that trains five models one after another
counts five times from 1. So a count may only take back steps after a restart that is known: a
checkpoint was loaded, the launcher restarted the process, or another session, attempt or run
began. A count that begins again without one is **new**: what came before it stays as it is.

Pure arithmetic on integers: it knows neither samples nor the order in which attempts arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESUMED, CONTINUED, NEW = "resumed", "continued", "new"
Integers = NDArray[np.int64]
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class StepRange:
    """Steps of one node whose numbers rise by one."""

    began_us: int
    ended_us: int
    """The end, on one clock for all ranges that are compared."""
    first: int
    last: int
    """The last step's number; `first` and `last` are both included."""
    begins: str
    """The kind of start. RESUMED: after a restart. CONTINUED: higher numbers in the same process.
    NEW: a count that begins again."""
    is_counted: bool = False
    """Nobody told a number, so its steps are counted from 1."""

    @property
    def count(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class CountedSteps:
    """The steps of a range that count."""

    last: int
    """Higher numbers were done again; below the range's first: all of them."""
    is_known: bool = True
    """False if the number at which it resumed is unknown, so nothing is known to be lost."""


def select_counted_steps(ranges: Sequence[StepRange]) -> list[CountedSteps]:
    """Return for each range the steps that count, in the order given.

    A counted range that begins after another one has ended is of no use: after a restart nobody
    knows where it resumed.
    """
    first_ended = min((each.ended_us for each in ranges), default=0)
    unknown = [r.is_counted and r.began_us >= first_ended for r in ranges]
    known = zip(ranges, unknown, strict=True)
    resumed = sorted((r.began_us, r.first) for r, no in known if r.begins == RESUMED and not no)
    began = np.array([at for at, _ in resumed], dtype=np.int64)
    firsts = np.array([first for _, first in resumed], dtype=np.int64)
    new = np.array(sorted(r.began_us for r in ranges if r.begins == NEW), dtype=np.int64)
    return [
        CountedSteps(each.last, is_known=False)
        if no
        else CountedSteps(_until(each, began, firsts, new))
        for each, no in zip(ranges, unknown, strict=True)
    ]


def _until(
    each: StepRange,
    began: Integers,
    firsts: Integers,
    new: Integers,
) -> int:
    """Return the last number that counts: up to the lowest one that came again, before the next
    count that begins again.
    """
    following = np.searchsorted(new, each.began_us, side="right")
    until_us = int(new[following]) if following < len(new) else _NEVER
    low, high = np.searchsorted(began, [each.ended_us, until_us])
    again = int(firsts[low:high].min()) if high > low else each.last + 1
    return min(each.last, max(again - 1, each.first - 1))


def count_distinct_steps(ranges: Sequence[StepRange], counted: Sequence[CountedSteps]) -> int:
    """Return how many different steps count: two nodes that make the same step make one, a script
    that counts again from 1 makes others.
    """
    total, span, ended = 0, list[tuple[int, int]](), _NEVER
    for each, k in sorted(zip(ranges, counted, strict=True), key=lambda pair: pair[0].began_us):
        if each.begins == NEW:
            if each.began_us >= ended or ended == _NEVER:
                total, span, ended = total + _union(span), [], each.ended_us
            ended = min(ended, each.ended_us)
        span.append((each.first, k.last))
    return total + _union(span)


def lost_count(ranges: Sequence[StepRange], counted: Sequence[CountedSteps]) -> int:
    """Return how many steps were lost: one that nodes made together counts once, one that was lost
    in two attempts counts twice.
    """
    total, together, reached = 0, list[tuple[int, int]](), 0
    for each, k in sorted(zip(ranges, counted, strict=True), key=lambda pair: pair[0].began_us):
        if each.began_us >= reached:
            total, together = total + _union(together), []
        reached = max(reached, each.ended_us)
        together.append((max(k.last + 1, each.first), each.last))
    return total + _union(together)


def _union(spans: Iterable[tuple[int, int]]) -> int:
    """Return how many numbers the spans cover, both ends included; one that ends before it begins
    has none.
    """
    total, reached = 0, None
    for first, last in sorted(span for span in spans if span[1] >= span[0]):
        begin = first if reached is None else max(first, reached + 1)
        total += max(last - begin + 1, 0)
        reached = last if reached is None else max(reached, last)
    return total

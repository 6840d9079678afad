"""Decides whether a run that loaded another run's checkpoint continues its training.

Loading alone says little: a script that fine-tunes a finished model loads its checkpoint, and so do
an evaluation, and each of many runs that try settings from one start. A continuation continues the
numbers of the steps, after everybody else has stopped working, and takes back no work that was
finished. Pure: the order in which runs arrive has no influence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rules.step_ranges import StepRange

GOES_ON = ""


@dataclass(frozen=True)
class Progress:
    """The progress of a run: how far it came."""

    resumed_at: int
    """The number of steps that its training had done before its first one."""
    last: int
    """The highest number of its steps."""
    ended_us: int
    """The end of its last step, in microseconds since 1970."""
    is_finished: bool
    """True if it ended by itself and without an error."""
    reached_plan: bool = False
    """True if its parameters tell a number of steps or epochs, and it has made all of them."""


def progress(
    ranges: Iterable[StepRange], *, is_finished: bool, reached_plan: bool
) -> Progress | None:
    """Return the progress, or None if the numbers of its first steps are unknown."""
    known = sorted(ranges, key=lambda each: each.began_us)
    if not known:
        return None
    return Progress(
        resumed_at=known[0].first - 1,
        last=max(each.last for each in known),
        ended_us=max(each.ended_us for each in known),
        is_finished=is_finished,
        reached_plan=is_finished and reached_plan,
    )


def why_not(
    later: Progress | None,
    loaded_us: int,
    earlier: Progress | None,
    others: Iterable[Progress] = (),
) -> str:
    """Return why the later run doesn't continue the earlier one, whose checkpoint it loaded before
    its first step; GOES_ON if it does.

    Args:
        loaded_us: when it loaded the checkpoint.
        others: the runs of the earlier one's training that began before the later one.
    """
    if later is None or earlier is None:
        return "the numbers of its steps are unknown"
    if later.resumed_at < 1:
        return "its steps begin at 1: it starts from a trained model"
    if not earlier.resumed_at <= later.resumed_at <= earlier.last:
        return "its steps don't follow those of the run that saved the checkpoint"
    if earlier.reached_plan:
        return "the run that saved the checkpoint had finished what it was to do"
    known = [earlier, *others]
    if any(each.ended_us > loaded_us for each in known):
        return "another run of the training was still at work"
    if any(each.is_finished and each.last > later.resumed_at for each in known):
        return "it would do steps again that a finished run has made"
    return GOES_ON

"""The part of a run's time that grows with its work, without its fixed start-up and end.

A run takes `fixed + seconds per unit * units`. The fixed part is everything but the training loop:
other commands of a script, the time before the first training step (`initialise`) and after the
last (`finalise`). The growing part is the loop: `train`, `evaluate` and `checkpoint`.
Only `growing / units` compares two runs that did different amounts of work: with `whole / units`,
one epoch instead of ten looks like more cost per sample, because fewer samples share the same
start-up.

What is slower in the first steps (compiling, filling caches) still counts as growing, so a loop of
few steps looks more expensive than it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from advisor.phases import LABELS, LOOP, START

GROWING = (LOOP, *LABELS)


def growing_seconds(phase_seconds: Mapping[str, float], duration_seconds: float) -> float | None:
    """Return the wall seconds of the loop with its evaluations and checkpoints, above 0 and at most
    `duration_seconds`.

    None if the loop wasn't measured. `duration_seconds - growing_seconds(...)` is the fixed part.
    """
    if START not in phase_seconds or LOOP not in phase_seconds:
        return None
    loop = min(sum(phase_seconds.get(name, 0.0) for name in GROWING), duration_seconds)
    return loop if math.isfinite(loop) and loop > 0 else None


def growing_share(phase_seconds: Mapping[str, float], duration_seconds: float) -> float | None:
    """Return the growing seconds as a share of the duration, in (0, 1], and so of the cost: a run
    holds its machines all the time.
    """
    growing = growing_seconds(phase_seconds, duration_seconds)
    return None if growing is None else growing / duration_seconds

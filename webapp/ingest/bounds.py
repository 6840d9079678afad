"""Refuses segments that no honest agent sends: a session of many years, or more samples than any
machine takes.

Times within a session are counted by a clock that nobody sets, so a step of the wall clock can't
bring a session here. A wrong wall clock moves a whole session; that is accepted. So is a segment
that is far from the others of its session: the time between them is a gap, which costs nothing.
"""

from __future__ import annotations

from trimtab.wire import Segment

from webapp.http.problems import Problem

MOST_SESSION_DAYS = 1_100
"""The longest session: three years without a restart of the agent."""
MOST_SAMPLES_A_SECOND = 20_000
"""The highest rate: 4,000 series, the most of a segment, five times a second."""
_DAY_MS = 86_400_000


def check_bounds(segment: Segment) -> None:
    """Check a segment. Raises Problem 400, naming the field and the fix."""
    end_ms = segment.start_ms + segment.duration_ms
    if end_ms > MOST_SESSION_DAYS * _DAY_MS:
        detail = (
            f"The segment ends {end_ms // _DAY_MS:,} days after its session began; a session lasts "
            f"at most {MOST_SESSION_DAYS:,} days."
        )
        fix = "Count start_ms from the start of the session; restart the agent for a new session."
        raise Problem(400, detail, "start_ms", fix)
    seconds = max(segment.duration_ms / 1000, 1.0)
    if segment.sample_count > MOST_SAMPLES_A_SECOND * seconds:
        detail = (
            f"{segment.sample_count:,} samples in {seconds:g} s; at most "
            f"{MOST_SAMPLES_A_SECOND:,} a second are accepted."
        )
        raise Problem(400, detail, "blocks", "Sample less often, or send fewer series.")

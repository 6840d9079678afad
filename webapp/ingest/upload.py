"""A segment as it was uploaded."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trimtab.wire import FIRST_PIECE, Segment

from webapp.directives import delivery
from webapp.quotas import admission
from webapp.runs import progress

# A smaller difference between the clocks is the time that an upload takes.
SKEW_NOISE_SECONDS = 5
_TELLING = progress.TELLING | {delivery.EVENT}


@dataclass(frozen=True)
class Upload:
    """A decoded segment, its body as it came, and when the agent's clock says it was sent."""

    segment: Segment
    body: bytes
    sent_at_ns: int | None

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @cached_property
    def object_key(self) -> str:
        clock = self.segment.clock
        name = f"{self.segment.seq:09d}-{self.sha256}.segment"
        return f"runs/{self.segment.run_id}/{clock.session_id}/{name}"

    @property
    def is_plain(self) -> bool:
        """True if this is a whole segment without facts that are kept with its session."""
        kinds = {event.kind for event in self.segment.events}
        return self.segment.seq < FIRST_PIECE and kinds.isdisjoint(_TELLING)

    @property
    def measured_until_ns(self) -> int:
        """The end of the segment by the machine's clock, since the Unix epoch."""
        segment = self.segment
        return segment.clock.started_at_ns + (segment.start_ms + segment.duration_ms) * 1_000_000

    @property
    def clock_offset_ms(self) -> int:
        """The correction to add to the machine's clock: whole seconds, 0 within the noise.

        Known from the time at which the agent says that it sent. Nothing arrives before it was
        measured, so a clock that is ahead of ours is detected even without that time.
        """
        now_ns = time.time_ns()
        told_ns = 0 if self.sent_at_ns is None else now_ns - self.sent_at_ns
        offset_seconds = round(min(told_ns, now_ns - self.measured_until_ns) / 1e9)
        return offset_seconds * 1000 if abs(offset_seconds) > SKEW_NOISE_SECONDS else 0

    @property
    def columns(self) -> dict[str, Any]:
        """Return the columns that every way of writing the segment's row sets."""
        segment = self.segment
        return {
            "object_key": self.object_key,
            "sha256": self.sha256,
            "body_bytes": len(self.body),
            "sample_count": segment.sample_count,
            "start_ms": segment.start_ms,
            "duration_ms": segment.duration_ms,
            "resolution_ms": segment.resolution_ms,
        }

    @property
    def row(self) -> dict[str, Any]:
        """Return the columns of the segment's row, except for its session."""
        refused = [[each.name, each.reason] for each in self.segment.refused]
        return {"seq": self.segment.seq, "refused": refused, **self.columns}

    def taken(self, is_new_run: bool) -> admission.Upload:
        """Return what the segment takes of the quotas."""
        segment, size_bytes = self.segment, len(self.body)
        series = tuple(name for block in segment.blocks for name in block.columns)
        return admission.Upload(
            segment.run_id, is_new_run, size_bytes, size_bytes, segment.machine_id, series
        )

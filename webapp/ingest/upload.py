"""A segment as it was uploaded."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from trimtab.wire import Segment

from webapp.accounts.models import Token, Workspace
from webapp.directives import delivery
from webapp.quotas.amounts import UploadAmounts
from webapp.runs import progress

# A smaller difference between the clocks is the time that an upload takes.
SKEW_NOISE_SECONDS = 5
_TELLING = progress.TELLING | {delivery.EVENT}


@dataclass(frozen=True)
class Upload:
    """A decoded segment, its body as it came, and who sent it."""

    workspace: Workspace
    segment: Segment
    body: bytes
    sent_at_ns: int | None = None
    """The time of sending by the agent's clock, since the Unix epoch; None if unknown."""
    token: Token | None = None

    @property
    def run_id(self) -> UUID:
        return self.segment.run_id

    @property
    def session_id(self) -> UUID:
        return self.segment.clock.session_id

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @cached_property
    def object_key(self) -> str:
        name = f"{self.segment.seq:09d}-{self.sha256}.segment"
        return f"runs/{self.run_id}/{self.session_id}/{name}"

    @property
    def has_facts(self) -> bool:
        """True if some of its events are stored with its session."""
        return not _TELLING.isdisjoint(event.kind for event in self.segment.events)

    @property
    def end_ms(self) -> int:
        """The end of the segment, since the start of its session."""
        return self.segment.start_ms + self.segment.duration_ms

    @property
    def measured_until_ns(self) -> int:
        """The end of the segment by the machine's clock, since the Unix epoch."""
        return self.segment.clock.started_at_ns + self.end_ms * 1_000_000

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
    def row(self) -> dict[str, Any]:
        """Return the columns of the segment's row, and those that tell whose it is."""
        segment = self.segment
        refused = [[each.name, each.reason] for each in segment.refused]
        return {
            "workspace_id": self.workspace.pk,
            "run_id": segment.run_id,
            "attempt": segment.attempt,
            "machine_id": segment.machine_id,
            "session_id": self.session_id,
            "seq": segment.seq,
            "object_key": self.object_key,
            "sha256": self.sha256,
            "body_bytes": len(self.body),
            "sample_count": segment.sample_count,
            "start_ms": segment.start_ms,
            "duration_ms": segment.duration_ms,
            "resolution_ms": segment.resolution_ms,
            "refused": json.dumps(refused) if refused else "[]",
        }

    def takes(self, is_new_run: bool) -> UploadAmounts:
        """Return what the segment takes of the quotas."""
        segment, size_bytes = self.segment, len(self.body)
        series = tuple(name for block in segment.blocks for name in block.columns)
        return UploadAmounts(
            segment.run_id, is_new_run, size_bytes, size_bytes, segment.machine_id, series
        )

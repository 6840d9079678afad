"""Asks agents again for segments that were answered and are gone: after a power loss, or after an
older copy of the data was restored."""

from __future__ import annotations

import re
import time
from uuid import UUID

from django.conf import settings

from advisor.store.opening import open_store
from webapp.ingest.upload import Upload
from webapp.runs.models import Segment

HEADER = "x-trimtab-answered"
CHECK_SECONDS = 300.0
"""An agent keeps answered segments for 15 minutes, so each loss is found in time."""
MORE_SECONDS = 30.0
"""The seconds until the next check if there was more to request."""
MOST_ASKED = 5_000
"""The most segments that are requested in one answer."""
_MOST_NUMBERS = 20_000
_MOST_REMEMBERED = 10_000
_RANGES = re.compile(r"\d{1,10}(-\d{1,10})?(,\d{1,10}(-\d{1,10})?){0,99}", re.ASCII)

_check_at: dict[UUID, float] = {}
"""Monotonic seconds, by session. A process that starts after a power loss has checked none."""


def is_check_due(session_id: UUID, answered: str) -> bool:
    """Return whether it is time to list the stored segments for an upload, which takes a while."""
    now = time.monotonic()
    return bool(answered) and now >= _check_at.get(session_id, now)


def find_missing_segments(upload: Upload, answered: str) -> list[tuple[UUID, int]]:
    """Return session and number of each segment that the service answered and doesn't have.

    Args:
        upload: the segment that was just stored; only its session is checked.
        answered: as the agent says in its header: `12-96,3`. Another form is ignored.
    """
    session, now = upload.segment.clock.session_id, time.monotonic()
    if not is_check_due(session, answered):
        return []
    wanted = _numbers(answered) if _RANGES.fullmatch(answered) else set()
    if not wanted:
        return []
    gone = sorted(wanted - _stored(upload, min(wanted)))
    if len(_check_at) >= _MOST_REMEMBERED:
        _check_at.clear()
    _check_at[session] = now + (MORE_SECONDS if len(gone) > MOST_ASKED else CHECK_SECONDS)
    return [(session, seq) for seq in gone[:MOST_ASKED]]


def _numbers(answered: str) -> set[int]:
    """Return the first `_MOST_NUMBERS` numbers of the ranges."""
    numbers: set[int] = set()
    for span in answered.split(","):
        first, _, last = span.partition("-")
        end = min(int(last or first), int(first) + _MOST_NUMBERS - len(numbers) - 1)
        numbers.update(range(int(first), end + 1))
    return numbers


def _stored(upload: Upload, lowest: int) -> set[int]:
    """Return the segments that have a row and, unless their samples were compacted, an object."""
    rows = Segment.objects.filter(session=upload.segment.clock.session_id, seq__gte=lowest)
    described = list(rows.values_list("seq", "object_key", "compacted_at"))
    folder = upload.object_key.rpartition("/")[0]
    keys = {stored.key for stored in open_store(settings.OBJECTS_URL).list(f"{folder}/")}
    return {seq for seq, key, compacted_at in described if compacted_at or key in keys}

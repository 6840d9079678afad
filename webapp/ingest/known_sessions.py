"""Which sessions exist, as far as this process knows, and when they began.

Only a hint, so that an upload of a known session can take the short way: whether the session is
still there, and whose it is, is asked of the rows with each upload.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from trimtab.wire import Segment

from webapp.accounts.models import Workspace
from webapp.runs.models import Session

MOST_REMEMBERED = 50_000

_began_at: dict[tuple[int, UUID], datetime] = {}
"""By workspace and session, corrected."""


def began_at(workspace: Workspace, segment: Segment) -> datetime | None:
    """The corrected begin of the segment's session; None if the workspace has no such session."""
    own = workspace.pk, segment.clock.session_id
    known = _began_at.get(own)
    if known is None and (known := _read(workspace, segment)) is not None:
        if len(_began_at) >= MOST_REMEMBERED:
            _began_at.clear()
        _began_at[own] = known
    return known


def _read(workspace: Workspace, segment: Segment) -> datetime | None:
    sessions = Session.objects.filter(
        pk=segment.clock.session_id,
        node__attempt__run=segment.run_id,
        node__attempt__run__workspace=workspace,
    )
    found = sessions.values_list("started_at", "clock_offset_ms").first()
    return found[0] + timedelta(milliseconds=found[1]) if found else None

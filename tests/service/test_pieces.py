"""A segment that was too large arrives in pieces, whose numbers are beyond the session's own."""

from __future__ import annotations

import pytest
from trimtab.wire import FIRST_PIECE

from webapp.runs import progress
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


def missing(agent) -> int:  # type: ignore[no-untyped-def]
    return progress.missing_segments(Run.objects.get(pk=agent.run_id))


def test_a_piece_stands_for_no_segment_that_is_missing(agent):
    agent.declare()
    last = agent.segments(3)[-1]
    for segment in (agent.segment(0), agent.segment(FIRST_PIECE, start_ms=10_000), last):
        assert agent.put(segment).status_code == 200
    assert missing(agent) == 1
    assert agent.put(agent.segment(1)).status_code == 200
    assert missing(agent) == 0

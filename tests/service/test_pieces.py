"""A segment that was too large arrives in pieces, whose numbers are beyond the session's own."""

from __future__ import annotations

from datetime import timedelta

import pytest
from trimtab.wire import FIRST_PIECE

from webapp.analysis.judging import tails
from webapp.runs import progress
from webapp.runs.models import Node, Run, Segment

pytestmark = pytest.mark.django_db


def missing(agent) -> int:  # type: ignore[no-untyped-def]
    return progress.count_missing_segments(progress.read_sessions(Run.objects.get(pk=agent.run_id)))


def first_half(agent):  # type: ignore[no-untyped-def]
    return agent.segment(FIRST_PIECE, start_ms=10_000, duration_ms=5_000)


def test_a_piece_stands_for_no_segment_that_is_missing(agent):
    agent.declare()
    last = agent.segments(3)[-1]
    for segment in (agent.segment(0), first_half(agent), last):
        assert agent.put(segment).status_code == 200
    assert missing(agent) == 1
    second_half = agent.segment(1, start_ms=15_000, duration_ms=5_000)
    assert agent.put(second_half).status_code == 200
    assert missing(agent) == 0


def test_what_is_here_as_a_whole_is_not_taken_again_in_pieces(agent):
    """The answer to the whole was lost; by the next attempt the way had become too narrow."""
    agent.put(agent.segment(1))
    answer = agent.put(first_half(agent))
    assert (answer.status_code, answer.json()["field"]) == (409, "seq")
    assert agent.put(agent.segment(1, start_ms=15_000, duration_ms=5_000)).status_code == 409
    assert Segment.objects.count() == 1


def test_what_is_here_in_pieces_is_not_taken_again_as_a_whole(agent):
    assert [agent.put(first_half(agent)).status_code for _ in range(2)] == [200, 200]
    assert agent.put(agent.segment(1)).status_code == 409
    assert agent.put(agent.segment(2)).status_code == 200


def test_an_old_piece_hides_none_of_a_run_s_last_minutes(agent, monkeypatch):
    """Pieces have the highest numbers, whenever they were measured."""
    monkeypatch.setattr(tails, "PAGE", 4)
    agent.put(agent.segment(0, duration_ms=5_000))
    agent.put(agent.segment(FIRST_PIECE, start_ms=5_000, duration_ms=5_000))
    for seq in range(1, 60):
        agent.put(agent.segment(seq))
    run = Run.objects.get()
    progress.derive_state(run)
    nodes = list(Node.objects.prefetch_related("sessions"))
    frame, since = tails.frame(run, nodes, timedelta(minutes=5))
    (node,) = frame.nodes.values()
    known = node.samples.dropna(how="all").index
    assert (run.ended_at - since).total_seconds() == pytest.approx(300, abs=10)
    assert known.max() - known.min() == pytest.approx(300, abs=15)

"""The SQL that extends runs leaves what deriving them from all of their sessions leaves."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trimtab.wire import FIRST_ADDED, Event, Segment, encode_segment

from tests.service.uploads import FakeAgent
from webapp.accounts.models import Workspace
from webapp.ingest.upload import Upload
from webapp.ingest.write import SegmentReceipt, write_segments
from webapp.runs import progress
from webapp.runs.models import Node, Run, Session

pytestmark = pytest.mark.django_db
SECOND_NS = 10**9


@st.composite
def _segments(draw: st.DrawFn, agent: FakeAgent) -> list[Segment]:
    """Draw segments of up to six sessions of one run, in any order; some of them end theirs."""
    started_at_ns = time.time_ns() - 3_600 * SECOND_NS
    segments: list[Segment] = []
    for _ in range(draw(st.integers(1, 6))):
        session = replace(
            agent,
            session_id=uuid4(),
            attempt=draw(st.integers(0, 2)),
            machine_id=draw(st.sampled_from(["m-1", "m-2"])),
            started_at_ns=started_at_ns + draw(st.integers(0, 600)) * SECOND_NS,
        )
        count = draw(st.integers(1, 4))
        own = [session.segment(seq) for seq in range(count)]
        if draw(st.booleans()):
            state = draw(st.sampled_from(["finished", "failed", "stopped"]))
            rule = draw(st.sampled_from(["", "hung"]))
            end = {"state": state, "final_seq": count - 1, "rule": rule}
            own[-1].events.append(Event(draw(st.integers(0, 10_000)), "session_end", end))
            if draw(st.booleans()):  # MLflow's clients may log after that
                own.append(session.segment(FIRST_ADDED, start_ms=100_000))
        segments += own
    return draw(st.permutations(segments))


def _derived(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in progress.OF_SESSIONS}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_order_of_uploads_leaves_what_deriving_leaves(
    agent: FakeAgent, workspace: Workspace, data: st.DataObject
) -> None:
    own = replace(agent, run_id=uuid4())
    left = data.draw(_segments(own))
    while left:
        count = data.draw(st.integers(1, len(left)))
        batch, left = left[:count], left[count:]
        if data.draw(st.booleans()):
            Run.objects.filter(pk=own.run_id, state=Run.RUNNING).update(state=Run.LOST)
        uploads = [Upload(workspace, each, encode_segment(each), time.time_ns()) for each in batch]
        assert all(isinstance(each, SegmentReceipt) for each in write_segments(uploads))
        _is_as_derived(own.run_id)


def _is_as_derived(run_id: UUID) -> None:
    stored, derived = Run.objects.get(pk=run_id), Run.objects.get(pk=run_id)
    progress.derive_state(derived)
    assert _derived(stored) == _derived(derived)
    nodes = Node.objects.filter(attempt__run=run_id).order_by("number")
    assert [node.number for node in nodes] == [*range(1, len(nodes) + 1)]
    for session in Session.objects.filter(node__attempt__run=run_id):
        ends = (each.start_ms + each.duration_ms for each in session.segments.all())
        assert session.last_ms == max(ends)


def test_what_is_logged_after_the_end_of_a_session_does_not_extend_a_running_run(agent):
    other = replace(agent, session_id=uuid4(), machine_id="machine-2")
    assert other.put(other.segment(0)).status_code == 200
    assert agent.put(agent.segment(0, last=True)).status_code == 200
    ended_at = Run.objects.get().ended_at
    assert agent.put(agent.segment(FIRST_ADDED, start_ms=100_000)).status_code == 200
    run = Run.objects.get()
    assert (run.state, run.ended_at) == (Run.RUNNING, ended_at)
    _is_as_derived(run.pk)

"""Runs that begin together are written together, and get the rows of those that begin alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trimtab.wire import encode_segment

from advisor.store.opening import open_store
from tests.service.uploads import FakeAgent, together
from webapp.accounts.models import Token, Workspace
from webapp.analysis.models import Analysis
from webapp.ingest import known_sessions, segment_rows
from webapp.ingest.upload import Upload
from webapp.ingest.write import SegmentReceipt, write_segments
from webapp.runs import registration
from webapp.runs.models import Attempt, Job, MovedRun, Node, Run, Segment, Session

pytestmark = pytest.mark.django_db
OTHER = {"id", "uuid", "run_id", "attempt_id", "node_id", "session_id", "number", "object_key"}
"""Columns in which two runs with the same samples differ."""
TIMES = {"created_at", "last_received_at", "received_at", "due_at", "waiting_since"}
BODY = {"sha256", "body_bytes"}


@pytest.fixture
def agents(agent: FakeAgent, token: str) -> Callable[[int], list[FakeAgent]]:
    """Return a function that makes agents of runs of one job."""

    def made(count: int) -> list[FakeAgent]:
        return [
            FakeAgent(agent.client, token, started_at_ns=agent.started_at_ns) for _ in range(count)
        ]

    return made


def _statuses(agents: Sequence[FakeAgent]) -> list[int]:
    """Return what is answered to their first segments, which come at the same time."""
    asked = [each.asked(0, encode_segment(each.segment(0))) for each in agents]
    return [answer.status_code for answer in together(asked)]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Let something happen once, after uploads are counted and before their rows are written."""

    def happens(what: Callable[[], object]) -> None:
        real = segment_rows.write_rows

        def write_rows(uploads: Sequence[Upload]) -> list[segment_rows.RowAnswer | Exception]:
            monkeypatch.setattr(segment_rows, "write_rows", real)
            what()
            return real(uploads)

        monkeypatch.setattr(segment_rows, "write_rows", write_rows)

    return happens


def _columns(row: Any, without: set[str]) -> dict[str, Any]:
    names = (field.attname for field in row._meta.concrete_fields)
    return {name: getattr(row, name) for name in names if name not in without}


def _rows_of(agent: FakeAgent) -> list[dict[str, Any]]:
    run = Run.objects.get(pk=agent.run_id)
    node = Node.objects.get(attempt__run=run)
    session = Session.objects.get(node=node)
    (segment,) = session.segments.all()
    uploaders = {"uploaders": [*run.uploaders.values_list("pk", flat=True)]}
    every = [run, node.attempt, node, session, segment, Analysis.objects.get(run=run)]
    return [*(_columns(row, OTHER | TIMES | BODY) for row in every), uploaders]


def test_they_leave_the_rows_that_one_alone_leaves(agents):
    many = agents(3)
    assert _statuses(many) == [200] * 3
    (alone,) = agents(1)
    assert _statuses([alone]) == [200]
    for each in many:
        for own, other in zip(_rows_of(each), _rows_of(alone), strict=True):
            assert own == other
    assert [*Analysis.objects.values_list("wanted", flat=True)] == [1] * 4
    assert not Analysis.objects.filter(waiting_since=None).exists()


def test_many_take_hardly_more_statements_than_one(
    agents, workspace, django_assert_max_num_queries
):
    segments = [agent.segment(0) for agent in agents(30)]
    token = Token.objects.get(workspace=workspace)
    uploads = [Upload(workspace, each, encode_segment(each), token=token) for each in segments]
    with django_assert_max_num_queries(26):
        outcomes = write_segments(uploads)
    assert outcomes == [SegmentReceipt(is_duplicate=False, may_be_asked=False)] * 30
    assert Segment.objects.count() == 30


def test_what_follows_takes_few_statements_at_once(agents, django_assert_max_num_queries):
    (agent,) = agents(1)
    assert _statuses([agent]) == [200]
    with django_assert_max_num_queries(10):
        assert agent.put(agent.segment(1)).status_code == 200


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(jobs=st.lists(st.sampled_from("abc"), min_size=1, max_size=8), known=st.integers(0, 3))
def test_each_job_numbers_its_runs_once_and_without_holes(agents, workspace, jobs, known):
    Run.objects.all().delete()
    Job.objects.all().delete()
    for _ in range(known):
        (alone,) = agents(1)
        _statuses([replace(alone, job="a")])
    many = [replace(each, job=job) for each, job in zip(agents(len(jobs)), jobs, strict=True)]
    assert set(_statuses(many)) == {200}
    for name in set(jobs):
        job = Job.objects.get(workspace=workspace, name=name)
        count = jobs.count(name) + (known if name == "a" else 0)
        assert job.runs_made == count
        numbers = sorted(job.runs.values_list("number", flat=True))
        assert numbers == [*range(1, count + 1)]


def test_a_name_that_is_another_jobs_key_means_that_job(agents, workspace):
    Job.objects.create(workspace=workspace, key="digits", name="Handwriting")
    assert _statuses(agents(2)) == [200] * 2
    assert Job.objects.get().runs.count() == 2


def test_nodes_of_one_run_that_begin_together_make_one_run(agents):
    (one,) = agents(1)
    nodes = [replace(one, session_id=uuid4(), machine_id=f"m-{n}") for n in range(3)]
    assert _statuses(nodes) == [200] * 3
    found = Node.objects.filter(attempt__run=Run.objects.get()).values_list("number", "machine_id")
    assert sorted(found) == [(1, "m-0"), (2, "m-1"), (3, "m-2")]
    assert Job.objects.get().runs_made == 1
    assert Analysis.objects.get().wanted == 3


def test_a_merged_job_hands_its_runs_on(agents, workspace):
    into = Job.objects.create(workspace=workspace, key="into", name="into")
    Job.objects.create(workspace=workspace, key="digits", name="digits", merged_into=into)
    assert _statuses(agents(2)) == [200] * 2
    assert into.runs.count() == MovedRun.objects.count() == 2


def test_a_deleted_job_comes_back(agents, workspace):
    now = timezone.now()
    Job.objects.create(workspace=workspace, key="digits", name="digits", deleted_at=now)
    assert _statuses(agents(2)) == [200] * 2
    assert Job.objects.get().deleted_at is None


def test_one_whose_session_is_another_runs_fails_no_other(agents, settings, monkeypatch):
    (known,) = agents(1)
    assert _statuses([known]) == [200]
    monkeypatch.setattr(known_sessions, "_remembered", {})  # Another process made it
    first, wrong, last = agents(3)
    many = [first, replace(wrong, session_id=known.session_id), last]
    assert _statuses(many) == [200, 409, 200]
    assert Run.objects.filter(pk__in=[first.run_id, last.run_id]).count() == 2
    objects = open_store(settings.OBJECTS_URL).list("runs/")
    assert not any(str(wrong.run_id) in each.key for each in objects)


def test_a_run_that_came_meanwhile_gets_another_segment(agents, meanwhile):
    """The run may come from another web process."""
    (agent,) = agents(1)
    again = replace(agent, session_id=uuid4(), machine_id="machine-2")
    meanwhile(lambda: again.put(again.segment(0)))
    assert _statuses([agent]) == [200]
    assert Attempt.objects.count() == 1
    assert Node.objects.count() == Segment.objects.count() == 2


def test_a_run_that_became_anothers_meanwhile_is_refused(agents, settings, meanwhile):
    (agent,) = agents(1)
    theirs = Workspace.objects.create(name="Theirs")
    job = Job.objects.create(workspace=theirs, key="job", name="job")
    meanwhile(lambda: Run.objects.create(pk=agent.run_id, workspace=theirs, job=job, number=1))
    assert _statuses([agent]) == [404]
    assert Session.objects.count() == 0
    assert [*open_store(settings.OBJECTS_URL).list("runs/")] == []


def test_workspaces_that_begin_together_have_jobs_of_their_own(agents, agent):
    theirs = Workspace.objects.create(name="Theirs")
    own, other = agents(2)
    other.token = Token.make(theirs, "agent", ["ingest"])[1]
    assert _statuses([own, other]) == [200] * 2
    assert sorted(Job.objects.values_list("workspace__name", "runs_made")) == [
        ("Ours", 1),
        ("Theirs", 1),
    ]
    assert Run.objects.get(pk=other.run_id).workspace == theirs


def test_what_can_not_be_written_together_is_written_one_by_one(agents, monkeypatch):
    real = registration.make_runs

    def make_runs(named: Iterable[tuple[UUID, Workspace, str]]) -> list[Run]:
        listed = [*named]
        if len(listed) > 1:
            raise OperationalError("on purpose")
        return real(listed)

    monkeypatch.setattr(registration, "make_runs", make_runs)
    assert _statuses(agents(2)) == [200] * 2


def test_a_backlog_of_a_new_run_is_written_in_its_order(agents):
    (agent,) = agents(1)
    bodies = [encode_segment(agent.segment(seq)) for seq in (3, 2, 1, 0)]
    answer = agent.post(bodies)
    assert [row["status"] for row in answer.json()["answers"]] == [200] * 4
    assert Session.objects.get().last_ms == 40_000
    assert Analysis.objects.get().wanted == 4


def test_more_than_one_transaction_may_be_needed(agents, monkeypatch):
    monkeypatch.setattr(segment_rows, "MOST_TOGETHER", 2)
    assert _statuses(agents(5)) == [200] * 5
    assert Job.objects.get().runs_made == 5

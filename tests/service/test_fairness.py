"""Workspaces take turns: what one of them has waiting never keeps another's work from its turn."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.uploads import FakeAgent
from webapp.accounts.models import Token, Workspace
from webapp.analysis import compaction, queue
from webapp.analysis.models import Analysis
from webapp.analysis.tasks import evaluate
from webapp.background import claims, conditions, fairness, handing_out
from webapp.background.kinds import all_kinds
from webapp.runs.models import Job, Run

pytestmark = pytest.mark.django_db
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
KIND = queue.KIND


@pytest.fixture(autouse=True)
def messages(monkeypatch) -> list[Any]:
    """What the broker was given."""
    sent: list[Any] = []
    monkeypatch.setattr(
        "webapp.background.handing_out.current_app.send_task",
        lambda _task, args, **_: sent.extend(args),
    )
    return sent


def due(workspace: Workspace, count: int, minutes: float = 1, **columns: Any) -> list[Analysis]:
    """Runs of a workspace that are due to be analysed, the first for longest."""
    job, _ = Job.objects.get_or_create(workspace=workspace, key="job", name="job")
    rows = []
    for number in range(count):
        job.runs_made += 1
        job.save()
        run = Run.objects.create(pk=uuid4(), workspace=workspace, job=job, number=job.runs_made)
        due_at = timezone.now() - minutes * MINUTE + number * SECOND
        rows.append(Analysis.objects.create(run=run, wanted=1, due_at=due_at, **columns))
    return rows


def owners(messages: list[Any]) -> list[str]:
    return [Run.objects.get(pk=run_id).workspace.name for run_id in messages]


@pytest.fixture
def other(db) -> Workspace:
    return Workspace.objects.create(name="Theirs")


def test_the_backlog_of_one_workspace_does_not_go_before_anothers_first(workspace, other, messages):
    due(workspace, 40, minutes=90)
    late = due(other, 1, minutes=0.1)
    handing_out.sweep(KIND)
    assert str(late[0].run_id) in messages
    assert owners(messages).count("Ours") == fairness.MOST_OF_ONE


def test_a_workspace_alone_has_all_workers_but_no_backlog_with_the_broker(workspace, messages):
    due(workspace, 40)
    handing_out.sweep(KIND)
    handing_out.sweep(KIND)
    assert len(messages) == len(set(messages)) == KIND.limits.most_queued == 8


def test_those_that_wait_longest_come_first_within_a_workspace(workspace, messages):
    rows = due(workspace, 12)
    handing_out.sweep(KIND)
    assert messages == [str(row.run_id) for row in rows[:8]]


def test_an_upload_hands_out_no_more_than_its_share(workspace, other, messages):
    first, second = due(workspace, 2)
    due(other, 1)
    assert handing_out.hand_out(KIND, run=first.run) == 1
    assert handing_out.hand_out(KIND, run=second.run) == 0
    assert messages == [str(first.run_id)]


def test_an_upload_hands_out_nothing_while_the_broker_holds_enough(workspace, messages):
    *_, last = due(workspace, KIND.limits.most_queued + 1)
    handing_out.sweep(KIND)
    assert handing_out.hand_out(KIND, run=last.run) == 0
    assert len(messages) == KIND.limits.most_queued


def test_a_worker_leaves_a_row_whose_workspace_has_its_share(workspace, other):
    first, second = due(workspace, 2)
    due(other, 1)
    assert claims.claim(KIND, first.run_id) is not None
    Analysis.objects.filter(pk=second.pk).update(queued_at=timezone.now())
    assert claims.claim(KIND, second.run_id) is None
    second.refresh_from_db()
    assert (second.queued_at, second.lease, second.kills) == (None, None, 0)


def test_a_row_that_has_to_wait_leaves_the_other_messages_with_the_broker(workspace, other):
    held, taken, waiting = due(workspace, 3)
    due(other, 1)
    now = timezone.now()
    assert claims.claim(KIND, held.run_id) is not None
    Analysis.objects.filter(pk=taken.pk).update(leased_until=now + MINUTE)
    Analysis.objects.update(queued_at=now)
    assert claims.claim(KIND, taken.run_id) is None, "another worker has it"
    assert claims.claim(KIND, waiting.run_id) is None
    queued_at = dict(Analysis.objects.values_list("pk", "queued_at"))
    assert queued_at.pop(waiting.pk) is None
    assert set(queued_at.values()) == {now}


def test_a_worker_takes_it_once_nobody_else_waits(workspace, other):
    first, second = due(workspace, 2)
    due(other, 1, done=1)
    assert claims.claim(KIND, first.run_id) is not None
    assert claims.claim(KIND, second.run_id) is not None


def test_a_workspace_that_was_lost_by_its_worker_is_not_kept_waiting(workspace, other):
    gone = timezone.now() - MINUTE
    due(workspace, 1, lease=uuid4(), leased_until=gone)
    (mine,) = due(workspace, 1)
    due(other, 1)
    assert claims.claim(KIND, mine.run_id) is not None


def test_what_was_given_up_takes_no_turn(workspace, other, messages):
    given_up = timezone.now()
    due(other, 3, given_up_at=given_up, queued_at=given_up)
    due(workspace, 3)
    handing_out.sweep(KIND)
    assert owners(messages) == ["Ours"] * 3


def test_a_finished_analysis_hands_out_the_next(agent, workspace, messages):
    agent.put(agent.segment(0, last=True))
    (waiting,) = due(workspace, 1)
    del messages[:]
    evaluate(str(agent.run_id))
    assert str(waiting.run_id) in messages


def test_compaction_has_one_worker_at_a_time(db):
    assert compaction.KIND.limits.most_queued == 1
    shared = {kind.id for kind in all_kinds() if kind.limits.is_shared}
    assert shared == {"analysis", "compaction", "import"}


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(backlogs=st.lists(st.integers(1, 9), min_size=2, max_size=4), data=st.data())
def test_each_workspace_is_served_within_one_round(db, backlogs, data):
    """However the backlogs are, each has a row in the first `len(backlogs)` that are handed out."""
    Workspace.objects.all().delete()
    for number, count in enumerate(backlogs):
        minutes = data.draw(st.integers(1, 500))
        due(Workspace.objects.create(name=str(number)), count, minutes)
    idle = conditions_due()
    keys = fairness.in_turn(KIND, idle, len(backlogs), timezone.now())
    found = Run.objects.filter(pk__in=keys).values_list("workspace__name", flat=True)
    assert sorted(found) == [str(number) for number in range(len(backlogs))]


def conditions_due() -> Any:
    return conditions.due(KIND, timezone.now())


def test_a_finding_of_a_stranger_waits_for_nobodys_backlog(workspace, other, messages):
    """Through the doors: a workspace floods, another one's first upload is handed out at once."""
    due(workspace, 30, minutes=60)
    handing_out.sweep(KIND)
    agent = FakeAgent(Client(), Token.make(other, "agent", ["ingest"])[1])
    agent.put(agent.segment(0))
    handing_out.refill(KIND)
    del messages[:]
    Analysis.objects.filter(run__workspace=workspace).update(queued_at=None)
    Analysis.objects.filter(run__workspace=other).update(queued_at=None)
    handing_out.refill(KIND)
    assert "Theirs" in owners(messages)[:2]

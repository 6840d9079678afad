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
from webapp.analysis import queue
from webapp.analysis.models import Analysis
from webapp.background import claims, fairness
from webapp.background.kinds import all_kinds
from webapp.retention import rounds
from webapp.retention.models import RetentionRound
from webapp.runs.models import Job, Run

pytestmark = pytest.mark.django_db
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
KIND = queue.KIND


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


def listed(most: int = 50) -> list[Any]:
    return fairness.in_turn(KIND, most, timezone.now())


def owners(keys: list[Any]) -> list[str]:
    return [Run.objects.get(pk=run_id).workspace.name for run_id in keys]


@pytest.fixture
def other(db) -> Workspace:
    return Workspace.objects.create(name="Theirs")


def test_the_backlog_of_one_workspace_does_not_go_before_anothers_first(workspace, other):
    due(workspace, 40, minutes=90)
    (late,) = due(other, 1, minutes=0.1)
    assert listed()[1] == late.run_id
    assert len(listed()) == 41


def test_those_that_wait_longest_come_first_within_a_workspace(workspace):
    rows = due(workspace, 12)
    assert listed(8) == [row.run_id for row in rows[:8]]


def test_a_run_without_any_analysis_comes_before_those_that_have_one(workspace):
    had = timezone.now() - MINUTE
    rows = due(workspace, 3, finished_at=had)
    (new,) = due(workspace, 1, minutes=0.1)
    assert listed() == [new.run_id, *(row.run_id for row in rows)]


@pytest.mark.parametrize("new_runs", [50, 400])
def test_many_new_runs_at_once_keep_no_look_waiting_for_all_of_them(workspace, new_runs):
    """A fleet that starts at once hides no run that hangs, however large it is."""
    due(workspace, new_runs, minutes=2)
    (hangs,) = due(workspace, 1, minutes=0.5, finished_at=timezone.now() - MINUTE)
    assert hangs.run_id in listed()[:2]


def test_looks_that_wait_for_long_leave_new_runs_half_of_the_time(workspace):
    due(workspace, 400, minutes=9, finished_at=timezone.now() - MINUTE)
    new = {row.run_id for row in due(workspace, 3, minutes=0.1)}
    firsts = [place for place, run_id in enumerate(listed()) if run_id in new]
    assert firsts == [0, 17, 34]


def test_new_runs_of_one_workspace_do_not_go_before_anothers_others(workspace, other):
    due(workspace, 10)
    (waiting,) = due(other, 1, finished_at=timezone.now() - MINUTE)
    assert waiting.run_id in listed()[:2]


def test_what_a_worker_holds_is_a_turn_of_its_workspace(workspace, other):
    due(workspace, 3, minutes=9)
    due(other, 3, minutes=1)
    assert owners(listed(3)) == ["Ours", "Theirs", "Ours"]
    Analysis.objects.filter(run_id=listed()[0]).update(leased_until=timezone.now() + MINUTE)
    assert owners(listed(3)) == ["Theirs", "Ours", "Theirs"]


def test_a_worker_leaves_a_row_whose_workspace_has_its_share(workspace, other):
    first, second = due(workspace, 2)
    due(other, 1)
    assert claims.claim(KIND, first.run_id) is not None
    assert claims.claim(KIND, second.run_id) is None
    second.refresh_from_db()
    assert (second.lease, second.kills) == (None, 0)


def test_the_row_that_a_killed_worker_held_is_no_share_of_its_own(workspace, other):
    gone = timezone.now() - MINUTE
    (row,) = due(workspace, 1, lease=uuid4(), leased_until=gone)
    due(other, 1)
    assert claims.claim(KIND, row.run_id) is not None


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


def test_what_was_given_up_takes_no_turn(workspace, other):
    due(other, 3, given_up_at=timezone.now())
    due(workspace, 3)
    assert owners(listed()) == ["Ours"] * 3


def test_long_work_leaves_a_worker_to_analyses():
    """Whoever's it is."""
    at_once = {kind.id: kind.limits.at_once for kind in all_kinds() if kind.limits.at_once}
    most = fairness.MOST_OF_ONE
    assert at_once == {"compaction": most, "import": most, "prices": 1, "retention": 1}
    assert [kind.id for kind in all_kinds() if kind.limits.is_shared] == ["analysis"]


def test_no_more_than_its_limit_is_under_way_of_long_work(workspace, other):
    for each in (workspace, other):
        RetentionRound.objects.create(workspace=each, wanted=1)
    held = claims.claim(rounds.KIND, workspace.pk)
    assert held is not None
    assert claims.claim(rounds.KIND, other.pk) is None
    begun = RetentionRound.objects.filter(workspace=workspace)
    lease = rounds.KIND.limits.lease
    begun.update(leased_until=timezone.now() + lease - fairness.COUNTED_FOR - SECOND)
    assert claims.claim(rounds.KIND, other.pk) is not None, "its worker may be gone"
    RetentionRound.objects.filter(workspace=other).update(lease=None, leased_until=None)
    long_ago = timezone.now() - 2 * fairness.COUNTED_FOR
    begun.update(began_at=long_ago, leased_until=timezone.now() + lease)
    assert claims.claim(rounds.KIND, other.pk) is None, "it has just renewed its lease"
    assert claims.finish_work(held)
    assert claims.claim(rounds.KIND, other.pk) is not None


def test_rows_under_one_lease_are_one_worker_at_work(workspace, other):
    third = Workspace.objects.create(name="Third")
    for each in (workspace, other, third):
        RetentionRound.objects.create(workspace=each, wanted=1)
    lease = uuid4()
    assert claims.claim_under(lease, rounds.KIND, workspace.pk, {}) is not None
    held = claims.claim_under(lease, rounds.KIND, other.pk, {})
    assert held is not None
    assert claims.claim(rounds.KIND, third.pk) is None
    assert claims.finish_work(held)
    assert claims.claim(rounds.KIND, third.pk) is None, "it has another row"
    assert RetentionRound.objects.get(workspace=workspace).lease == lease


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(backlogs=st.lists(st.integers(1, 9), min_size=2, max_size=4), data=st.data())
def test_each_workspace_is_served_within_one_round(db, backlogs, data):
    """Each workspace has a row in the first `len(backlogs)` that are taken, however the backlogs
    are.
    """
    Workspace.objects.all().delete()
    for number, count in enumerate(backlogs):
        minutes = data.draw(st.integers(1, 500))
        due(Workspace.objects.create(name=str(number)), count, minutes)
    found = Run.objects.filter(pk__in=listed(len(backlogs)))
    names = found.values_list("workspace__name", flat=True)
    assert sorted(names) == [str(number) for number in range(len(backlogs))]


def test_a_finding_of_a_stranger_waits_for_nobodys_backlog(workspace, other):
    """The uploads come through the doors: a workspace floods, and another one's first upload comes
    next.
    """
    due(workspace, 30, minutes=60)
    agent = FakeAgent(Client(), Token.make(other, "agent", ["ingest"])[1])
    agent.put(agent.segment(0))
    assert "Theirs" in owners(listed(2))

"""Claims, failures, killed workers and wake-ups, for every kind of background work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import example, given
from hypothesis import strategies as st

from tests.service.claiming import claim_next
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Token, User, Workspace
from webapp.advice import recounting
from webapp.advice.models import SavingsRecount
from webapp.analysis import queue
from webapp.analysis.models import Analysis, Compaction
from webapp.analysis.samples import compaction
from webapp.background import claims, conditions, pulling
from webapp.background.kinds import WorkKind, WorkLimits, all_kinds
from webapp.imports import queue as imports
from webapp.notify import password_reset
from webapp.notify import queue as mails
from webapp.notify.models import Mail, PasswordReset
from webapp.prices import refresh
from webapp.prices.models import PriceRefresh
from webapp.retention import rounds
from webapp.retention.models import RetentionRound
from webapp.rulebook import rejudging
from webapp.rulebook.models import Rejudging

pytestmark = pytest.mark.django_db


def _analysis(workspace: Workspace, agent: FakeAgent) -> None:
    agent.put(agent.segment(0, last=True))


def _mail(workspace: Workspace, agent: FakeAgent) -> None:
    user = User.objects.create_user("ada@example.org")
    Mail.objects.create(user=user, workspace=workspace, kind="budget", subject_key="1")


def _compaction(workspace: Workspace, agent: FakeAgent) -> None:
    agent.put(agent.segment(0, last=True))
    compaction.want_due(timezone.now() + timedelta(hours=2))
    Compaction.objects.update(due_at=timezone.now())
    Analysis.objects.all().delete()


def _retention(workspace: Workspace, agent: FakeAgent) -> None:
    rounds.queue_rounds()


def _rejudging(workspace: Workspace, agent: FakeAgent) -> None:
    rejudging.queue_rejudging(workspace)


def _savings_recount(workspace: Workspace, agent: FakeAgent) -> None:
    SavingsRecount.objects.create(workspace=workspace, before_usd=Decimal(1), wanted=1)


def _password_reset(workspace: Workspace, agent: FakeAgent) -> None:
    PasswordReset.objects.create(email="ada@example.org")


def _prices(workspace: Workspace, agent: FakeAgent) -> None:
    PriceRefresh.objects.create(name="ec2/us-east-1", wanted=1)


def _import(workspace: Workspace, agent: FakeAgent) -> None:
    agent.put_artefact(b"no archive", kind="import", name="x.tar.gz")


WORK: dict[str, tuple[WorkKind[Any], Callable[[Workspace, FakeAgent], None]]] = {
    "analysis": (queue.KIND, _analysis),
    "compaction": (compaction.KIND, _compaction),
    "import": (imports.KIND, _import),
    "mail": (mails.KIND, _mail),
    "password_reset": (password_reset.KIND, _password_reset),
    "prices": (refresh.KIND, _prices),
    "rejudging": (rejudging.KIND, _rejudging),
    "retention": (rounds.KIND, _retention),
    "savings_recount": (recounting.KIND, _savings_recount),
}


@pytest.fixture(params=sorted(WORK))
def kind(request, workspace, agent) -> WorkKind[Any]:
    """Return a kind of work, with one row that is due."""
    found, want = WORK[request.param]
    want(workspace, agent)
    assert found.rows.count() == 1
    return found


def state_of(kind: WorkKind[Any]) -> str:
    return kind.rows.annotate(work_state=conditions.state(timezone.now())).get().work_state


def lose_lease(kind: WorkKind[Any]) -> None:
    kind.rows.update(leased_until=timezone.now() - timedelta(seconds=1))


def test_every_kind_that_is_registered_is_tried_here():
    assert {kind.id for kind in all_kinds()} == set(WORK)


def test_due_work_is_claimed_without_any_message(kind):
    assert state_of(kind) == conditions.DUE
    held = claim_next(kind)
    assert held is not None
    assert state_of(kind) == conditions.UNDER_WAY
    assert claim_next(kind) is None
    assert claims.finish_work(held)
    assert state_of(kind) == conditions.DONE
    assert claim_next(kind) is None


def test_what_is_not_due_yet_is_not_pulled(kind):
    kind.rows.update(due_at=timezone.now() + timedelta(minutes=1))
    assert claim_next(kind) is None


def test_a_worker_that_lost_its_lease_saves_nothing(kind):
    late = claim_next(kind)
    lose_lease(kind)
    second = claim_next(kind)
    assert second is not None
    saved: list[str] = []
    assert not claims.renew(late)
    assert not claims.finish_work(late, lambda: saved.append("late"))
    claims.fail(late, "too late")
    claims.mark_failed(late, "too late")
    assert state_of(kind) == conditions.UNDER_WAY
    assert kind.rows.get().error == ""
    assert claims.finish_work(second, lambda: saved.append("second"))
    assert saved == ["second"]


def test_a_renewed_lease_is_kept(kind):
    held = claim_next(kind)
    lose_lease(kind)
    assert claims.renew(held)
    assert claim_next(kind) is None


def test_the_outcome_and_the_end_are_one_transaction(kind):
    held = claim_next(kind)

    def save() -> None:
        kind.rows.update(error="half written")
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"):
        claims.finish_work(held, save)
    assert state_of(kind) == conditions.UNDER_WAY
    assert kind.rows.get().error == ""


def test_what_arrives_during_the_work_is_not_lost(kind):
    held = claim_next(kind)
    claims.mark_due(kind.rows)
    assert claims.finish_work(held)
    assert state_of(kind) == conditions.DUE
    assert claims.finish_work(claim_next(kind))
    assert state_of(kind) == conditions.DONE


def test_failures_are_tried_again_later_and_then_given_up_with_their_error(kind):
    limits = kind.limits
    for number in range(1, limits.max_attempts + 1):
        assert state_of(kind) == (conditions.RETRY if number > 1 else conditions.DUE)
        before = timezone.now()
        claims.fail(claim_next(kind), ValueError(f"number {number}\0"))
        row = kind.rows.get()
        assert (row.attempts, row.kills, row.error) == (number, 0, f"ValueError: number {number}")
        if number < limits.max_attempts:
            assert before <= row.due_at <= timezone.now() + limits.longest_pause
        kind.rows.update(due_at=timezone.now())
    assert state_of(kind) == conditions.FAILED
    assert claim_next(kind) is None
    assert not pulling.sweep()


def test_kills_are_counted_apart_and_given_up_by_the_sweep(kind):
    for number in range(kind.limits.max_kills):
        held = claim_next(kind)
        assert held is not None
        assert (held.row.attempts, held.row.kills) == (0, number)
        lose_lease(kind)
        assert state_of(kind) == conditions.RETRY
        assert pulling.sweep()
        assert kind.rows.get().error == ""
    last = claim_next(kind)
    lose_lease(kind)
    assert not pulling.sweep()
    assert state_of(kind) == conditions.FAILED
    assert kind.rows.get().error.startswith(f"Given up: {kind.limits.max_kills} workers died")
    assert claims.finish_work(last), "it was only slow"
    assert (state_of(kind), kind.rows.get().error) == (conditions.DONE, "")


def test_a_person_can_have_it_tried_again_once_it_failed(kind):
    assert claims.retry_failed(kind, kind.rows) == 0
    claims.mark_failed(claim_next(kind), "it will never work")
    assert state_of(kind) == conditions.FAILED
    assert claims.retry_failed(kind, kind.rows) == 1
    assert (state_of(kind), kind.rows.get().error) == (conditions.DUE, "")
    held = claim_next(kind)
    assert (held.row.attempts, held.row.kills) == (0, 0)


def test_something_new_has_it_tried_again_too(kind):
    claims.mark_failed(claim_next(kind), "it will never work")
    claims.mark_due(kind.rows)
    assert claims.finish_work(claim_next(kind))


def test_the_work_of_each_kind_is_found_by_its_path_and_claims_what_is_due(kind):
    key = kind.rows.values_list(kind.key, flat=True).get()
    named = [key] if kind.limits.batch > 1 else key
    past = timezone.now() - timedelta(hours=1)
    if kind.limits.batch == 1 and kind is not password_reset.KIND:
        assert kind.carry_out(named, due_at__lte=past) is False
    assert kind.carry_out(named, due_at__lte=timezone.now()) is True
    assert kind.rows.get().began_at is not None


def test_a_person_may_take_work_over_and_the_worker_that_had_it_saves_nothing(kind):
    first = claim_next(kind)
    key = kind.rows.values_list(kind.key, flat=True).get()
    assert claims.claim(kind, key) is None
    second = claims.claim_by_force(kind, key)
    assert second is not None
    assert not claims.finish_work(first)
    assert claims.finish_work(second)
    assert claims.claim_by_force(kind, key) is None


def test_the_longest_waiting_is_taken_first(workspace):
    for days in (1, 3, 2):
        other = Workspace.objects.create(name=f"{days} days")
        Rejudging.objects.create(
            workspace=other, wanted=1, due_at=timezone.now() - timedelta(days=days)
        )
    names = [claim_next(rejudging.KIND).row.workspace.name for _ in range(3)]
    assert names == ["3 days", "2 days", "1 days"]


@given(attempts=st.integers(1, 60), first=st.integers(1, 600), longest=st.integers(1, 86_400))
@example(attempts=60, first=600, longest=86_400)
def test_pauses_grow_to_a_bound_and_differ(attempts, first, longest):
    limits = WorkLimits(
        lease=timedelta(seconds=1),
        max_attempts=60,
        first_pause=timedelta(seconds=first),
        longest_pause=timedelta(seconds=longest),
    )
    pauses = [limits.pause(attempts) for _ in range(20)]
    assert all(timedelta() <= pause <= limits.longest_pause for pause in pauses)
    assert max(pauses).total_seconds() <= first * 2 ** (attempts - 1)
    assert len(set(pauses)) > 1


def test_compaction_that_was_given_up_waits_for_new_segments(agent):
    later = timezone.now() + timedelta(hours=2)
    agent.put(agent.segment(0))
    compaction.want_due(later)
    Compaction.objects.update(due_at=timezone.now())
    claims.mark_failed(claim_next(compaction.KIND), "unreadable")
    compaction.want_due(later)
    assert state_of(compaction.KIND) == conditions.FAILED
    agent.put(agent.segment(1))
    compaction.want_due(later)
    assert state_of(compaction.KIND) == conditions.DUE


def test_retention_rounds_are_made_in_every_workspace_once_a_day(workspace):
    Workspace.objects.create(name="Deleted", deleted_at=timezone.now() - timedelta(days=8))
    for _ in range(2):
        rounds.queue_rounds()
        while held := claim_next(rounds.KIND):
            claims.release(held, timezone.now())
            rounds.run_round(held.row.workspace_id)
    assert list(Workspace.objects.all()) == [workspace], "the deletion can't be undone any more"
    (own,) = RetentionRound.objects.all()
    assert own.done == own.wanted
    assert Token.objects.filter(workspace=workspace).exists() is False

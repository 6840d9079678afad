"""Which rows are due, what the broker is given, and what the kinds of background work have."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone
from kombu.exceptions import OperationalError

from tests.service.test_claims import HOUR, LIMITS, MINUTE, SECOND, is_near, now_in
from webapp.accounts.models import Workspace
from webapp.background import conditions, handing_out
from webapp.background.kinds import Kind, Limits, all_kinds, kind_called
from webapp.notify.models import Mail
from webapp.notify.queue import KIND as MAIL
from webapp.prices.models import PriceRefresh
from webapp.prices.refresh import KIND as PRICES
from webapp.rulebook.models import Rejudging
from webapp.rulebook.rejudging import KIND

pytestmark = pytest.mark.django_db


@pytest.fixture
def row(workspace) -> Rejudging:
    """Due for an hour, after failures and deaths."""
    due_at = timezone.now() - HOUR
    return Rejudging.objects.create(
        workspace=workspace, wanted=7, done=4, due_at=due_at, attempts=2, kills=3
    )


# Conditions


@pytest.mark.parametrize(
    ("columns", "state"),
    [
        ({}, "retry"),
        ({"attempts": 0, "kills": 0}, "due"),
        ({"attempts": 0}, "retry"),
        ({"kills": 0}, "retry"),
        ({"attempts": 0, "kills": 0, "lease": uuid4()}, "retry"),
        ({"attempts": 0, "kills": 0, "lease": uuid4(), "leased_until": -1}, "retry"),
        ({"lease": uuid4(), "leased_until": 0}, "under_way"),
        ({"lease": uuid4(), "leased_until": 1}, "under_way"),
        ({"given_up_at": -1}, "failed"),
        ({"given_up_at": -1, "lease": uuid4(), "leased_until": 1}, "under_way"),
        ({"done": 7}, "done"),
        ({"done": 7, "given_up_at": -1, "leased_until": 1}, "done"),
        ({"done": 6, "attempts": 0, "kills": 0}, "due"),
    ],
)
def test_the_state_that_people_read(row, columns, state):
    now = timezone.now()
    moments = ("given_up_at", "leased_until")
    given = {k: now + v * HOUR if k in moments else v for k, v in columns.items()}
    Rejudging.objects.update(**given)
    annotated = KIND.rows.annotate(work_state=conditions.state(now)).get()
    assert annotated.work_state == state


def test_rows_are_due_and_leases_end_at_their_moment(row):
    now = timezone.now()
    Rejudging.objects.update(due_at=now, leased_until=now)
    assert not conditions.claimable(KIND, now).exists(), "the lease holds until then"
    later = now + timedelta(microseconds=1)
    assert conditions.claimable(KIND, later).exists()
    Rejudging.objects.update(leased_until=None)
    assert conditions.due(KIND, now).exists()
    assert not conditions.due(KIND, now - timedelta(microseconds=1)).exists()
    assert conditions.claimable(KIND, now - HOUR).exists(), "whether it is due or not"


@pytest.mark.parametrize(
    ("columns", "is_worn_out"),
    [
        ({"kills": LIMITS.max_kills}, True),
        ({"kills": LIMITS.max_kills + 1}, True),
        ({"kills": LIMITS.max_kills - 1}, False),
        ({"kills": LIMITS.max_kills, "done": 7}, False),
        ({"kills": LIMITS.max_kills, "given_up_at": timezone.now()}, False),
        ({"kills": LIMITS.max_kills, "leased_until": timezone.now() + HOUR}, False),
        ({"kills": LIMITS.max_kills, "leased_until": timezone.now() - HOUR}, True),
    ],
)
def test_what_has_cost_too_many_workers(row, columns, is_worn_out):
    Rejudging.objects.update(**columns)
    assert conditions.worn_out(KIND, timezone.now()).exists() == is_worn_out


# Handing out


@pytest.fixture
def sent(monkeypatch) -> list[tuple[Any, ...]]:
    """What the broker was given."""
    messages: list[tuple[Any, ...]] = []

    def take(task: str, args: Any, retry: bool) -> None:
        messages.append((task, args, retry))

    monkeypatch.setattr("celery.current_app.send_task", take)
    return messages


@pytest.fixture
def many(workspace) -> list[int]:
    """The keys of five rows that are due, the longest waiting first."""
    keys = []
    for number in range(5):
        workspace = Workspace.objects.create(name=str(number))
        due_at = timezone.now() - (10 - number) * MINUTE
        Rejudging.objects.create(workspace=workspace, wanted=1, due_at=due_at)
        keys.append(workspace.pk)
    return keys


def limited(**limits: int) -> Kind[Any]:
    return replace(KIND, limits=replace(LIMITS, **limits))


def test_each_row_is_a_message_with_its_key(many, sent):
    assert handing_out.sweep(KIND) == 5
    assert sent == [(KIND.task, [key], False) for key in many]
    assert all(is_near(row.queued_at, timezone.now()) for row in Rejudging.objects.all())
    assert handing_out.sweep(KIND) == 0


def test_a_batch_is_a_message_with_a_list_of_keys(many, sent):
    assert handing_out.sweep(limited(batch=2)) == 5
    assert [args for _, args, _ in sent] == [[many[:2]], [many[2:4]], [many[4:]]]


def test_keys_that_are_no_numbers_are_sent_as_text(sent):
    PriceRefresh.objects.create(name="ec2/us-east-1", wanted=1)
    assert handing_out.sweep(PRICES) == 1
    assert sent == [(PRICES.task, [["ec2/us-east-1"]], False)]


@pytest.mark.parametrize(
    ("batch", "most", "queued", "handed_out"),
    [(1, 3, 0, 3), (1, 3, 2, 1), (1, 2, 3, 0), (2, 3, 0, 2), (2, 4, 1, 2), (2, 3, 2, 0)],
)
def test_the_broker_holds_so_many_in_whole_batches(many, sent, batch, most, queued, handed_out):
    kind = limited(batch=batch, most_queued=most)
    with_it = Rejudging.objects.filter(workspace_id__in=many[-queued:] if queued else [])
    with_it.update(queued_at=timezone.now() - MINUTE)
    assert handing_out.sweep(kind) == handed_out
    assert sum(len(args[0]) if batch > 1 else 1 for _, args, _ in sent) == handed_out


def test_what_is_done_or_given_up_or_lost_takes_no_place_at_the_broker(many, sent):
    rows = [Rejudging.objects.filter(workspace_id=key) for key in many]
    recently = timezone.now() - MINUTE
    rows[2].update(queued_at=recently, done=1)
    rows[3].update(queued_at=recently, given_up_at=recently)
    rows[4].update(queued_at=timezone.now() - LIMITS.hand_out_again_after - SECOND)
    assert handing_out.sweep(limited(most_queued=3)) == 3
    assert [args for _, args, _ in sent] == [[many[0]], [many[1]], [many[4]]]


def test_some_rows_are_handed_out_at_once(many, sent):
    assert handing_out.hand_out(KIND, workspace_id=many[1]) == 1
    assert handing_out.hand_out(KIND, workspace_id=many[1]) == 0
    assert handing_out.hand_out(limited(most_queued=2), workspace_id__in=many) == 2
    assert [args for _, args, _ in sent] == [[many[1]], [many[0]], [many[2]]]


def test_a_broker_that_stops_answering_leaves_the_rest_for_the_sweep(many, monkeypatch, caplog):
    sent: list[Any] = []

    def refuse_the_third(_: str, args: Any, **__: Any) -> None:
        if len(sent) == 2:
            raise OperationalError("connection refused")
        sent.append(args)

    monkeypatch.setattr("celery.current_app.send_task", refuse_the_third)
    with caplog.at_level(logging.WARNING):
        assert handing_out.sweep(KIND) == 2
    queued = Rejudging.objects.exclude(queued_at=None).values_list("workspace_id", flat=True)
    assert sorted(queued) == many[:2]
    [record] = caplog.records
    assert record.message == "broker unreachable; the sweep tries again"
    assert record.error == "connection refused"


def test_what_is_worn_out_is_given_up_with_its_lease(workspace, sent, django_user_model):
    user = django_user_model.objects.create_user("ada@example.org")
    mail = Mail.objects.create(user=user, workspace=workspace, kind="budget", subject_key="1")
    lease = uuid4()
    died_at = timezone.now() - SECOND
    Mail.objects.update(kills=MAIL.limits.max_kills, lease=lease, leased_until=died_at)
    assert handing_out.sweep(MAIL) == 0
    assert sent == []
    assert now_in(mail, "lease", "state") == (lease, Mail.FAILED)
    assert now_in(mail, "error") == ("Given up: 30 workers died while they worked on it.",)
    assert is_near(mail.given_up_at, timezone.now())


# Kinds


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(1, 10), (2, 20), (3, 40), (4, 80), (5, 100), (9, 100), (99, 100)]
)
def test_a_pause_is_anything_up_to_its_bound(attempts, seconds):
    limits = Limits(HOUR, HOUR, 5, first_pause=10 * SECOND, longest_pause=100 * SECOND)
    pauses = [limits.pause(attempts) / SECOND for _ in range(400)]
    assert 0 <= min(pauses) < 0.1 * seconds
    assert 0.95 * seconds < max(pauses) <= seconds
    assert (limits.max_kills, limits.batch, limits.most_queued) == (10, 1, 500)


def test_kinds_are_found_by_their_id_and_listed_by_their_title():
    titles = [kind.title for kind in all_kinds()]
    assert titles == sorted(titles)
    assert len(set(titles)) > 3
    assert kind_called("rejudging") == KIND
    assert kind_called("nothing") is None


def test_rows_of_a_workspace_are_its_own_or_those_for_all(row, workspace):
    other = Workspace.objects.create(name="Other")
    PriceRefresh.objects.create(name="ec2/us-east-1")
    assert [list(KIND.rows_of(each)) for each in (workspace, other)] == [[row], []]
    assert [PRICES.rows_of(each).count() for each in (workspace, other)] == [1, 1]
    hidden = replace(KIND, shown={"attempts": 0})
    assert not hidden.rows_of(workspace).exists()
    assert KIND.may_be_tried_again
    assert not PRICES.may_be_tried_again
    assert MAIL.address(Mail()) == ""

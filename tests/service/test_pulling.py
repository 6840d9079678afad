"""The rows that are due, who wakes workers, what they pull, and what the kinds of work have."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.utils import timezone
from kombu.exceptions import OperationalError
from redis import RedisError

from tests.service.test_claims import HOUR, LIMITS, MINUTE, SECOND, is_near, now_in
from webapp.accounts.models import Workspace
from webapp.background import claims, conditions, fairness, kinds, pulling, waking
from webapp.background.kinds import WorkKind, WorkLimits, all_kinds, kind_called
from webapp.background.time_limit import time_limit
from webapp.http import redis_outage
from webapp.notify.models import Mail
from webapp.notify.queue import KIND as MAIL
from webapp.prices.models import PriceRefresh
from webapp.prices.refresh import KIND as PRICES
from webapp.rulebook import rejudging
from webapp.rulebook.models import Rejudging
from webapp.rulebook.rejudging import KIND

pytestmark = pytest.mark.django_db


@pytest.fixture
def row(workspace) -> Rejudging:
    """Return a row that has been due for an hour, after failures and deaths."""
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
    assert not conditions.claimable_rows(KIND, now).exists(), "the lease holds until then"
    later = now + timedelta(microseconds=1)
    assert conditions.claimable_rows(KIND, later).exists()
    Rejudging.objects.update(leased_until=None)
    assert conditions.due_rows(KIND, now).exists()
    assert not conditions.due_rows(KIND, now - timedelta(microseconds=1)).exists()
    assert conditions.claimable_rows(KIND, now - HOUR).exists(), "whether it is due or not"


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


# Waking


@pytest.fixture
def sent(monkeypatch) -> Iterator[list[Any]]:
    """Yield the messages for workers, which are there as long as none takes them."""
    redis = redis_outage.client(settings.REDIS_URL)
    queue = f"{settings.CELERY_BROKER_TRANSPORT_OPTIONS['global_keyprefix']}{waking.QUEUE}"
    messages: list[Any] = []

    def send(*words: Any, **options: Any) -> None:
        messages.append((words, options))
        redis.lpush(queue, "message")

    monkeypatch.setattr("celery.current_app.send_task", send)
    monkeypatch.setattr(waking, "_outage", redis_outage.Outage("out"))
    monkeypatch.setattr(pulling, "_quiet_until", 0.0)
    redis.delete(queue, waking._mark())
    yield messages
    redis.delete(queue, waking._mark())


def taken_by_a_worker() -> None:
    """Let Redis give it away; work hasn't begun."""
    prefix = settings.CELERY_BROKER_TRANSPORT_OPTIONS["global_keyprefix"]
    redis_outage.client(settings.REDIS_URL).delete(f"{prefix}{waking.QUEUE}")


def test_one_message_waits_however_much_becomes_due(sent):
    for _ in range(5):
        waking.wake()
    assert sent == [(("background.pull",), {"retry": False})]


def test_a_worker_that_begins_can_be_followed_by_another_message(sent):
    waking.wake()
    taken_by_a_worker()
    waking.wake()
    assert len(sent) == 1, "whoever has it looks for due rows later than now"
    waking.is_awake()
    waking.wake()
    assert len(sent) == 2


def test_a_message_that_was_lost_is_sent_again_soon(sent):
    waking.wake()
    taken_by_a_worker()
    key, redis = waking._mark(), redis_outage.client(settings.REDIS_URL)
    assert 0 < redis.pttl(key) <= 1000 * waking.SENDING_SECONDS
    redis.delete(key)
    waking.wake()
    assert len(sent) == 2


def test_a_message_that_waits_for_long_is_enough(sent):
    waking.wake()
    redis_outage.client(settings.REDIS_URL).delete(waking._mark())
    waking.wake()
    assert len(sent) == 1


@pytest.mark.parametrize("error", [OperationalError("refused"), RedisError("away")])
def test_a_broker_that_is_away_costs_time_only(many, sent, monkeypatch, caplog, error):
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("celery.current_app.send_task", refuse)
        waking.wake()
        waking.wake()
    assert len(caplog.records) == 1
    assert pulling.pull() == 5, "whoever is awake needs no message"


def test_what_isnt_due_wakes_nobody(row, sent, django_capture_on_commit_callbacks):
    for due_at, messages in ((timezone.now() + HOUR, 0), (timezone.now() - HOUR, 1)):
        Rejudging.objects.update(due_at=due_at)
        with django_capture_on_commit_callbacks(execute=True):
            waking.wake_on_commit(KIND, workspace=row.workspace)
            assert sent == [], "not before the commit"
        assert len(sent) == messages


def test_the_sweep_wakes_a_worker_if_anything_is_due(many, sent):
    assert pulling.sweep()
    assert len(sent) == 1
    Rejudging.objects.update(due_at=timezone.now() + HOUR)
    taken_by_a_worker()
    waking.is_awake()
    assert not pulling.sweep()
    assert len(sent) == 1


def test_what_is_worn_out_is_given_up_with_its_lease(workspace, sent, django_user_model):
    user = django_user_model.objects.create_user("ada@example.org")
    mail = Mail.objects.create(user=user, workspace=workspace, kind="budget", subject_key="1")
    lease = uuid4()
    died_at = timezone.now() - SECOND
    Mail.objects.update(kills=MAIL.limits.max_kills, lease=lease, leased_until=died_at)
    assert not pulling.sweep()
    assert sent == []
    assert now_in(mail, "lease", "state") == (lease, Mail.FAILED)
    assert now_in(mail, "error") == ("Given up: 30 workers died while they worked on it.",)
    assert is_near(mail.given_up_at, timezone.now())


# Pulling


@pytest.fixture
def many(workspace) -> list[int]:
    """Return the keys of five rows that are due, the longest waiting first."""
    keys = []
    for number in range(5):
        workspace = Workspace.objects.create(name=str(number))
        due_at = timezone.now() - (10 - number) * MINUTE
        Rejudging.objects.create(workspace=workspace, wanted=1, due_at=due_at)
        keys.append(workspace.pk)
    return keys


@pytest.fixture
def worked(monkeypatch) -> list[int]:
    """Return the workspaces that were judged again, in turn."""
    keys: list[int] = []
    real = rejudging.rejudge_workspace

    def judge_again(key: int, **which: object) -> bool:
        keys.append(key)
        return real(key, **which)

    monkeypatch.setattr(rejudging, "rejudge_workspace", judge_again)
    return keys


def test_a_worker_works_until_nothing_is_due(many, worked, sent):
    assert pulling.pull() == 5
    assert worked == many, "the longest waiting first"
    assert not Rejudging.objects.exclude(done=1).exists()
    assert len(sent) == 1, "a second worker could have helped"
    assert pulling.pull() == 0


def test_a_worker_alone_with_one_row_wakes_nobody(row, sent):
    assert pulling.pull() == 1
    assert sent == []


def test_what_becomes_due_meanwhile_is_done_as_well(many, monkeypatch, sent):
    late = Workspace.objects.create(name="late")
    real = rejudging.rejudge_workspace

    def judge_again(key: int, **which: object) -> bool:
        if key == many[-1]:
            Rejudging.objects.get_or_create(workspace=late, wanted=1)
        return real(key, **which)

    monkeypatch.setattr(rejudging, "rejudge_workspace", judge_again)
    assert pulling.pull() == 6


def test_what_another_worker_took_is_passed_over(many, monkeypatch, sent):
    """Both workers read the list at the same time."""
    real = rejudging.rejudge_workspace
    others = []

    def judge_again(key: int, **which: object) -> bool:
        if key == many[0]:
            others.extend(claims.claim(KIND, each) for each in many[1:3])
        return real(key, **which)

    monkeypatch.setattr(rejudging, "rejudge_workspace", judge_again)
    assert pulling.pull() == 3
    assert all(claims.finish_work(held) for held in others)
    kills = Rejudging.objects.values_list("kills", flat=True)
    assert set(kills) == {0}


def test_a_worker_ends_its_turn_and_leaves_the_rest_to_the_next(many, monkeypatch, sent):
    monkeypatch.setattr(pulling, "TURN_SECONDS", 0.0)
    assert pulling.pull() == 1
    assert len(sent) == 1
    assert Rejudging.objects.filter(done=0).count() == 4


def test_each_kind_gets_its_slice_of_a_turn(many, worked, monkeypatch, sent, django_user_model):
    monkeypatch.setattr(pulling, "SLICE_SECONDS", 0.0)
    PriceRefresh.objects.create(name="ec2/us-east-1", wanted=1)
    done: list[str] = []
    monkeypatch.setattr(
        "webapp.prices.tasks.refresh_part",
        lambda name, **_: bool(done.append(name) or PriceRefresh.objects.update(done=1)),
    )
    # Ends when all is done, however slow the machine is.
    monkeypatch.setattr(pulling, "TURN_SECONDS", 60.0)
    pulling.pull()
    assert done == ["ec2/us-east-1"]
    assert worked[:2] == many[:2]


def test_work_that_nobody_may_begin_ends_the_turn(many, monkeypatch, sent):
    monkeypatch.setattr(rejudging, "rejudge_workspace", lambda *_, **__: False)
    assert pulling.pull() == 0


def limit(monkeypatch: pytest.MonkeyPatch, at_once: int) -> WorkKind[Any]:
    limited = replace(KIND, limits=replace(LIMITS, at_once=at_once))
    monkeypatch.setitem(kinds._kinds, KIND.id, limited)
    monkeypatch.setattr(rejudging, "KIND", limited)
    return limited


def test_where_there_is_room_what_others_took_is_passed_over(many, worked, monkeypatch, sent):
    limited = limit(monkeypatch, 3)
    assert claims.claim(limited, many[0]) is not None
    assert claims.claim(limited, many[1]) is not None
    monkeypatch.setattr(fairness, "in_turn", lambda *_: many)
    assert pulling.pull() == 3


def test_where_there_is_no_room_a_worker_soon_gives_up(many, worked, monkeypatch, sent):
    limited = limit(monkeypatch, 1)
    held = claims.claim(limited, many[2])
    assert held is not None
    assert pulling.pull() == 0
    assert worked == many[:2]
    assert claims.finish_work(held)
    assert pulling.pull() == 4


def test_a_worker_that_can_begin_nothing_keeps_no_message_going(many, monkeypatch, sent):
    limited = limit(monkeypatch, 1)
    held = claims.claim(limited, many[0])
    assert held is not None
    for _ in range(5):
        taken_by_a_worker()
        assert pulling.pull() == 0
    assert len(sent) == 1, "before it knew"
    taken_by_a_worker()
    assert claims.finish_work(held)
    monkeypatch.setattr(pulling, "SLICE_SECONDS", 0.0)
    assert pulling.pull() == 4
    assert len(sent) == 2, "it could begin something, and there was more"


def test_a_row_that_takes_too_long_ends_alone(many, monkeypatch, sent, caplog):
    limited = replace(KIND, limits=replace(LIMITS, longest=timedelta(seconds=0.2)))
    monkeypatch.setitem(kinds._kinds, KIND.id, limited)
    real = rejudging._judge_jobs_again

    def judge(held: Any) -> None:
        if held.row.workspace_id == many[1]:
            time.sleep(60)
        real(held)

    monkeypatch.setattr(rejudging, "_judge_jobs_again", judge)
    assert pulling.pull() == 5
    failed = Rejudging.objects.get(workspace_id=many[1])
    assert (failed.attempts, failed.done) == (1, 0)
    assert failed.error.startswith("SoftTimeLimitExceeded")
    assert Rejudging.objects.filter(done=1).count() == 4


def test_a_limit_leaves_the_callers_alarm_as_it_was():
    handler = signal.getsignal(signal.SIGALRM)
    before = signal.getitimer(signal.ITIMER_REAL)[0]
    with time_limit(timedelta(minutes=1)):
        assert signal.getitimer(signal.ITIMER_REAL)[0] <= 60
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL)[0] == pytest.approx(before, abs=1)


# Kinds


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(1, 10), (2, 20), (3, 40), (4, 80), (5, 100), (9, 100), (99, 100)]
)
def test_a_pause_is_anything_up_to_its_bound(attempts, seconds):
    limits = WorkLimits(HOUR, 5, first_pause=10 * SECOND, longest_pause=100 * SECOND)
    pauses = [limits.pause(attempts) / SECOND for _ in range(400)]
    assert 0 <= min(pauses) < 0.1 * seconds
    assert 0.95 * seconds < max(pauses) <= seconds
    assert (limits.max_kills, limits.batch, limits.at_once) == (10, 1, None)


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

"""The columns that each step of background work writes, with exact times."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.service.claiming import claim_next
from webapp.accounts.models import Workspace
from webapp.background import claims
from webapp.background.kinds import WorkKind
from webapp.notify.models import Mail
from webapp.notify.queue import KIND as MAIL
from webapp.rulebook.models import Rejudging
from webapp.rulebook.rejudging import KIND

pytestmark = pytest.mark.django_db

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
LIMITS = KIND.limits


@pytest.fixture
def row(workspace) -> Rejudging:
    """Return a row that has been due for an hour, with traces of all that happened to it before."""
    return Rejudging.objects.create(
        workspace=workspace,
        wanted=7,
        done=4,
        due_at=timezone.now() - HOUR,
        attempts=2,
        kills=3,
        error="before",
        seconds=9,
    )


def now_in(row: Any, *columns: str) -> tuple[Any, ...]:
    row.refresh_from_db()
    return tuple(getattr(row, column) for column in columns)


def taken(row: Any, kind: WorkKind[Any] = KIND) -> claims.WorkClaim[Any]:
    held = claims.claim(kind, getattr(row, kind.key))
    assert held is not None
    row.refresh_from_db()
    return held


def is_unheld(row: Any) -> bool:
    return now_in(row, "lease", "leased_until") == (None, None)


def is_near(moment: datetime | None, expected: datetime) -> bool:
    return moment is not None and abs(moment - expected) < timedelta(seconds=30)


# Wanting


@pytest.mark.parametrize("due_in", [-HOUR, HOUR])
@pytest.mark.parametrize("waits_in", [None, -2 * HOUR, -MINUTE, MINUTE, 2 * HOUR])
def test_many_are_counted_and_wait_as_one_that_stays_due_when_it_was(row, due_in, waits_in):
    now = timezone.now()
    columns = {"due_at": now + due_in, "waiting_since": waits_in and now + waits_in}
    rows, found = Rejudging.objects.filter(pk=row.pk), []
    for _ in range(2):
        rows.update(wanted=7, **columns)
        if found:
            claims.mark_due(rows, max(now, columns["due_at"]), is_fresh=False)
        else:
            claims.want_many(KIND, {row.workspace_id: 1})
            assert now_in(row, "due_at") == (columns["due_at"],)
        found.append(now_in(row, "wanted", "waiting_since"))
    (many, many_since), (one, one_since) = found
    assert many == one == 8
    assert is_near(many_since, one_since)


def test_what_is_wanted_anew_is_due_at_once_and_has_all_its_attempts(row):
    Rejudging.objects.update(given_up_at=timezone.now())
    assert claims.mark_due(Rejudging.objects.all()) == 1
    assert now_in(row, "wanted", "done", "attempts", "kills") == (8, 4, 0, 0)
    assert now_in(row, "given_up_at", "error") == (None, "before")
    assert is_near(row.due_at, timezone.now())


def test_it_may_be_due_later_with_the_attempts_that_are_left(row):
    later = timezone.now() + HOUR
    claims.mark_due(Rejudging.objects.all(), due_at=later, is_fresh=False, error="since")
    assert now_in(row, "wanted", "due_at", "attempts", "kills") == (8, later, 2, 3)
    assert now_in(row, "error") == ("since",)


def test_wanting_rows_that_are_not_there_is_said(row):
    assert claims.mark_due(Rejudging.objects.filter(wanted=99)) == 0
    assert now_in(row, "wanted") == (7,)


# Claiming


def test_a_claim_leaves_a_lease_and_when_it_began(row):
    held = taken(row)
    assert isinstance(held.lease, UUID)
    assert (held.lease, held.began_at, held.pk, held.kind) == (
        row.lease,
        row.began_at,
        row.pk,
        KIND,
    )
    assert row.leased_until == held.began_at + LIMITS.lease
    assert is_near(held.began_at, timezone.now())
    assert (held.row.wanted, row.wanted, row.done) == (7, 7, 4)
    assert (row.attempts, row.kills) == (2, 3)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert held.row.workspace.name == "Ours"
    assert len(queries) == 0, "what the subject needs comes with the row"


def test_a_worker_that_died_is_counted_by_the_next_claim(row):
    first = taken(row)
    Rejudging.objects.update(leased_until=timezone.now() - SECOND)
    second = taken(row)
    assert second.lease != first.lease
    assert now_in(row, "attempts", "kills") == (2, 4)


@pytest.mark.parametrize(
    ("columns", "is_taken"),
    [
        ({}, True),
        ({"due_at": timezone.now() + HOUR}, True),
        ({"done": 6}, True),
        ({"done": 7}, False),
        ({"given_up_at": timezone.now()}, False),
        ({"leased_until": timezone.now() + HOUR, "lease": uuid4()}, False),
        ({"leased_until": timezone.now() - HOUR, "lease": uuid4()}, True),
        ({"kills": LIMITS.max_kills - 1}, True),
        ({"kills": LIMITS.max_kills}, False),
        ({"attempts": 99}, True),
    ],
)
def test_what_may_be_claimed(row, columns, is_taken):
    Rejudging.objects.update(**columns)
    assert (claims.claim(KIND, row.workspace_id) is not None) == is_taken


def test_a_claim_names_one_row_and_may_ask_more_of_it(row):
    other = Workspace.objects.create(name="Other")
    Rejudging.objects.create(workspace=other, wanted=1)
    assert claims.claim(KIND, 999) is None
    assert claims.claim(KIND, row.workspace_id, wanted=6) is None
    held = claims.claim(KIND, row.workspace_id, wanted=7)
    assert held is not None
    assert (held.row.workspace, Rejudging.objects.get(workspace=other).lease) == (
        row.workspace,
        None,
    )


def test_taking_over_needs_no_end_of_the_lease_but_something_to_do(row):
    first = taken(row)
    second = claims.claim_by_force(KIND, row.workspace_id)
    assert second is not None
    assert second.lease != first.lease
    assert now_in(row, "lease", "kills") == (second.lease, 4)
    assert claims.claim_by_force(KIND, 999) is None
    for nothing in ({"done": 7}, {"given_up_at": timezone.now()}):
        Rejudging.objects.update(**nothing)
        assert claims.claim_by_force(KIND, row.workspace_id) is None


def test_the_next_claim_is_of_what_is_due_and_free(row):
    for minutes, held_for in ((90, 1), (30, -1), (-1, 0)):
        Rejudging.objects.create(
            workspace=Workspace.objects.create(name=str(minutes)),
            wanted=1,
            due_at=timezone.now() - minutes * MINUTE,
            lease=uuid4() if held_for else None,
            leased_until=timezone.now() + held_for * HOUR if held_for else None,
        )
    claimed = [claim_next(KIND) for _ in range(3)]
    assert [held and held.row.workspace.name for held in claimed] == ["Ours", "30", None]


# Renewing, finishing, giving back


def test_a_renewed_lease_begins_anew_and_takes_columns_along(row):
    held = taken(row)
    Rejudging.objects.update(leased_until=timezone.now() - SECOND)
    assert claims.renew(held, seconds=5.0)
    assert now_in(row, "lease", "seconds") == (held.lease, 5.0)
    assert is_near(row.leased_until, timezone.now() + LIMITS.lease)
    assert not claims.renew(replace(held, lease=uuid4()), seconds=6.0)
    assert now_in(row, "seconds") == (5.0,)


def test_what_is_finished_says_when_and_has_nothing_left_of_before(row):
    held = replace(taken(row), began_at=timezone.now() - HOUR)
    Rejudging.objects.update(wanted=9)
    saved: list[int] = []
    assert claims.finish_work(held, lambda: saved.append(1), began_at=None)
    assert saved == [1]
    assert is_unheld(row)
    assert now_in(row, "wanted", "done", "error", "attempts", "kills") == (9, 7, "", 0, 0)
    assert now_in(row, "given_up_at", "began_at") == (None, None)
    assert is_near(row.finished_at, timezone.now())
    assert row.seconds == pytest.approx(3600, abs=30)


def test_what_is_finished_may_save_nothing_and_what_was_lost_saves_nothing(row):
    held = taken(row)
    assert not claims.finish_work(replace(held, lease=uuid4()), lambda: pytest.fail("saved"))
    assert now_in(row, "done", "lease") == (4, held.lease)
    assert claims.finish_work(held)
    assert now_in(row, "done") == (7,)


def test_a_result_counts_though_it_was_given_up_meanwhile(row):
    held = taken(row)
    Rejudging.objects.update(given_up_at=timezone.now())
    assert claims.finish_work(held)
    assert now_in(row, "given_up_at", "done") == (None, 7)


def test_what_is_given_back_is_due_then_and_has_all_its_attempts(row):
    held = taken(row)
    later = timezone.now() + HOUR
    assert not claims.release(replace(held, lease=uuid4()), later)
    assert claims.release(held, later, seconds=1.0)
    assert is_unheld(row)
    assert now_in(row, "due_at", "attempts", "kills", "seconds") == (later, 0, 0, 1.0)
    assert now_in(row, "wanted", "done", "error") == (7, 4, "before")


# Failing


def test_a_failure_is_counted_and_tried_again_after_a_pause(row):
    held = taken(row)
    claims.fail(replace(held, lease=uuid4()), ValueError("of somebody else"))
    assert now_in(row, "attempts", "lease") == (2, held.lease)
    claims.fail(held, ValueError("odd"))
    assert is_unheld(row)
    assert now_in(row, "attempts", "kills", "error", "given_up_at") == (
        3,
        3,
        "ValueError: odd",
        None,
    )
    assert timezone.now() - SECOND <= row.due_at <= timezone.now() + 4 * LIMITS.first_pause


def test_the_pause_doubles_with_each_failure(workspace):
    """The longest of 60 pauses, of each number of attempts, is near to what is allowed."""
    row = Rejudging.objects.create(workspace=workspace)
    for attempts, minutes in ((0, 1), (1, 2), (3, 8), (8, 30)):
        pauses = []
        for _ in range(60):
            Rejudging.objects.update(attempts=attempts, wanted=1, done=0, given_up_at=None)
            held = taken(row)
            before = timezone.now()
            claims.fail(held, "no")
            pauses.append((now_in(row, "due_at")[0] - before) / MINUTE)
        assert 0.8 * minutes <= max(pauses) <= minutes + 0.1


@pytest.mark.parametrize(("attempts", "is_given_up"), [(8, False), (9, True), (10, True)])
def test_the_last_attempt_is_given_up(row, attempts, is_given_up):
    Rejudging.objects.update(attempts=attempts)
    due_at = now_in(row, "due_at")[0]
    claims.fail(taken(row), "no")
    assert is_unheld(row)
    assert now_in(row, "attempts", "error") == (attempts + 1, "no")
    assert (row.given_up_at is not None) == (row.due_at == due_at) == is_given_up
    assert row.given_up_at is None or is_near(row.given_up_at, timezone.now())


@pytest.fixture
def mail(workspace, django_user_model) -> Mail:
    user = django_user_model.objects.create_user("ada@example.org")
    return Mail.objects.create(user=user, workspace=workspace, kind="budget", subject_key="1")


def test_what_is_given_up_says_so_in_its_own_way(mail):
    claims.mark_failed(replace(taken(mail, MAIL), lease=uuid4()), "of somebody else")
    assert now_in(mail, "given_up_at") == (None,)
    Mail.objects.update(leased_until=timezone.now() - SECOND)
    claims.mark_failed(taken(mail, MAIL), OSError("gone"))
    assert is_unheld(mail)
    assert now_in(mail, "attempts", "error", "state") == (1, "OSError: gone", Mail.FAILED)
    assert is_near(mail.given_up_at, timezone.now())


def test_the_last_failure_says_so_in_its_own_way_and_others_do_not(mail):
    claims.fail(taken(mail, MAIL), "no")
    assert now_in(mail, "state") == (Mail.WAITING,)
    Mail.objects.update(attempts=MAIL.limits.max_attempts - 1)
    claims.fail(taken(mail, MAIL), "no")
    assert now_in(mail, "state") == (Mail.FAILED,)


def test_a_person_has_it_tried_again(mail):
    assert claims.retry_failed(MAIL, Mail.objects.all()) == 0
    claims.mark_failed(taken(mail, MAIL), OSError("gone"))
    Mail.objects.update(kills=2, due_at=timezone.now() - HOUR)
    assert claims.retry_failed(MAIL, Mail.objects.filter(attempts=99)) == 0
    assert claims.retry_failed(MAIL, Mail.objects.all()) == 1
    assert is_unheld(mail)
    assert now_in(mail, "attempts", "kills", "error", "state") == (0, 0, "", Mail.WAITING)
    assert now_in(mail, "given_up_at") == (None,)
    assert is_near(mail.due_at, timezone.now())


def test_what_was_done_meanwhile_is_not_tried_again(row):
    Rejudging.objects.update(given_up_at=timezone.now(), done=7)
    assert claims.retry_failed(KIND, Rejudging.objects.all()) == 0


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        ("as it is", "as it is"),
        (ValueError("why"), "ValueError: why"),
        (KeyError("name"), "KeyError: 'name'"),
        ("a\0b\0", "ab"),
        ("x" * 2000, "x" * 2000),
        ("x" * 2001, "x" * 2000),
        ("", ""),
    ],
)
def test_an_error_is_kept_as_a_person_reads_it(error, kept):
    assert claims.error_text(error) == kept

"""Rows that were written while the service's clock was ahead wait no longer than they should."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.utils import timezone

from tests.service.claiming import claim_next
from tests.service.test_claims import HOUR, LIMITS, MINUTE, SECOND, is_near, now_in, taken
from tests.web import factories
from webapp.background import claims, clock
from webapp.rulebook.models import Rejudging
from webapp.rulebook.rejudging import KIND

pytestmark = pytest.mark.django_db


@pytest.fixture
def row(workspace) -> Rejudging:
    return Rejudging.objects.create(workspace=workspace)


def test_what_was_wanted_while_the_clock_was_ahead_is_due_now(row):
    claims.mark_due(Rejudging.objects.all(), timezone.now() + HOUR)
    assert claim_next(KIND) is None
    clock.mend_rows(HOUR)
    assert all(is_near(at, timezone.now()) for at in now_in(row, "due_at", "waiting_since"))
    assert claim_next(KIND) is not None


def test_what_was_due_later_comes_earlier_by_as_much_and_never_before_now(row):
    claims.mark_due(Rejudging.objects.all(), timezone.now() + HOUR + 10 * MINUTE)
    clock.mend_rows(HOUR)
    (due_at,) = now_in(row, "due_at")
    assert is_near(due_at, timezone.now() + 10 * MINUTE)


def test_what_has_long_been_due_stays_the_longest_waiting(row):
    since = timezone.now() - 2 * HOUR
    claims.mark_due(Rejudging.objects.all(), since)
    clock.mend_rows(HOUR)
    assert now_in(row, "due_at", "waiting_since") == (since, since)


def test_a_lease_ends_no_later_than_one_that_is_given_now(row):
    claims.mark_due(Rejudging.objects.all())
    taken(row)
    Rejudging.objects.update(leased_until=timezone.now() + HOUR)
    clock.mend_rows(HOUR)
    (until,) = now_in(row, "leased_until")
    assert timezone.now() + LIMITS.lease - 30 * SECOND < until <= timezone.now() + LIMITS.lease


def test_the_lease_of_a_living_worker_stays_its_own(row):
    claims.mark_due(Rejudging.objects.all())
    held = taken(row)
    clock.mend_rows(HOUR)
    assert claims.renew(held)


def test_nothing_happened_in_the_future(row):
    ahead = timezone.now() + HOUR
    Rejudging.objects.update(began_at=ahead, finished_at=ahead, lease=uuid4())
    clock.mend_rows(HOUR)
    assert all(is_near(at, timezone.now()) for at in now_in(row, "began_at", "finished_at"))


def test_a_run_that_was_looked_at_while_the_clock_was_ahead_is_looked_at_again(workspace):
    """The next look is due some seconds after the last one."""
    columns = ("looked_at", "watched_at", "called_at", "finished_at")
    ahead = dict.fromkeys(columns, timezone.now() + HOUR)
    analysis = factories.analysis(factories.run(factories.job(workspace)), **ahead)
    clock.mend_rows(HOUR)
    assert all(is_near(at, timezone.now()) for at in now_in(analysis, *columns))

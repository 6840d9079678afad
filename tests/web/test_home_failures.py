"""Jobs whose last run failed, on the home page: each once, with all runs that failed in a row."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.web import factories
from tests.web.test_home import agenda
from webapp.runs.models import Run


def test_a_job_that_fails_again_and_again_is_told_once(owner):
    now = timezone.now()
    job = factories.job(owner.workspace, "vision/train.py")
    factories.run(job, state=Run.FAILED, cost="8", started_at=now - timedelta(days=9))
    factories.run(job, started_at=now - timedelta(days=8))
    for days, cost in ((7, "1.5"), (5, "2"), (2, "0.75")):
        factories.run(job, state=Run.FAILED, cost=cost, started_at=now - timedelta(days=days))
    factories.run(job, state=Run.RUNNING, ended_at=None)

    [item] = agenda(owner)

    assert "vision/train.py #5" in item
    assert "3 runs in a row, the last after 10 m 0 s" in item
    assert "$4.25 spent" in item


@pytest.mark.parametrize(
    ("costs", "shown"),
    [
        (("2", None), "at least $2.00 spent"),
        ((None, None), "no price"),
        (("2", "1"), "$3.00 spent"),
    ],
)
def test_what_failed_runs_without_a_price_cost_is_never_guessed(owner, costs, shown):
    job = factories.job(owner.workspace)
    for cost in costs:
        factories.run(job, state=Run.FAILED, cost=cost)

    [item] = agenda(owner)

    assert shown in item
    assert ("at least" in item) == ("at least" in shown)


def test_a_job_with_many_failures_hides_no_other(owner):
    now = timezone.now()
    many, other = (factories.job(owner.workspace, name) for name in ("many.py", "other.py"))
    factories.run(other, state=Run.FAILED, started_at=now - timedelta(days=2))
    for minutes in range(120, 0, -1):
        began = now - timedelta(minutes=minutes)
        factories.run(many, state=Run.FAILED, cost="1", started_at=began, seconds=30)

    first, second = agenda(owner)

    assert "many.py #120 120 runs in a row" in first
    assert "$120.00 spent" in first
    assert "other.py #1" in second


@pytest.mark.parametrize("state", [Run.FINISHED, Run.STOPPED, Run.LOST])
def test_any_other_end_ends_a_row_of_failures(owner, state):
    job = factories.job(owner.workspace)
    for days, ended_as in ((40, Run.FAILED), (3, state), (2, Run.FAILED), (1, Run.FAILED)):
        began = timezone.now() - timedelta(days=days)
        factories.run(job, state=ended_as, cost="1", started_at=began)

    assert "2 runs in a row" in agenda(owner)[0]

    factories.run(job, state=state)

    assert agenda(owner) == []


def test_a_row_of_failures_is_counted_from_its_begin(owner):
    job = factories.job(owner.workspace)
    for days in (90, 45, 1):
        began = timezone.now() - timedelta(days=days)
        factories.run(job, state=Run.FAILED, cost="1", started_at=began)

    [item] = agenda(owner)

    assert "3 runs in a row" in item
    assert "$3.00 spent" in item


def test_a_job_that_works_again_needs_nobody(owner):
    job = factories.job(owner.workspace)
    factories.run(job, state=Run.FAILED, started_at=timezone.now() - timedelta(hours=3))
    factories.run(job)

    assert agenda(owner) == []

"""The recipients of mails about a regression and its end, and when they are sent."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core import mail as django_mail
from django.utils import timezone

from tests.html import without_wrapping
from tests.service import mailing
from tests.web import factories
from tests.web.judged import CALM, finished
from webapp.analysis.models import Regression
from webapp.analysis.successive import accepting
from webapp.notify.models import Mail
from webapp.runs.editing import runs
from webapp.runs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> mailing.Team:
    return mailing.team()


@pytest.fixture
def job(team) -> Job:
    return factories.job(team.workspace, "nightly")


def slow_down(job: Job) -> None:
    for slow in (*CALM, 1.3, 1.3):
        finished(job, slow)


def a_day_passes() -> None:
    """Let a day pass for the mails that were sent."""
    Mail.objects.update(created_at=timezone.now() - timedelta(days=1, minutes=1))


def subjects() -> list[str]:
    return [message.subject for message in django_mail.outbox]


def test_it_goes_once_to_owners_and_members_when_a_second_run_confirms_it(team, job):
    for slow in (*CALM, 1.3):
        finished(job, slow)
    mailing.one_round()
    assert subjects() == []
    finished(job, 1.3)
    mailing.one_round()
    mailing.one_round()
    assert sorted(message.to[0] for message in django_mail.outbox) == [
        "ada@example.org",
        "bob@example.org",
    ]
    assert subjects()[0] == "nightly: +30 % machine time for the same work since run #5"
    text, html = django_mail.outbox[0].body, django_mail.outbox[0].alternatives[0].content
    for part in (text, without_wrapping(html)):
        assert "more in 2 runs so far" in part
        assert "Train took longer, by 30 % of a run" in part
        assert f"/jobs/{job.uuid}/" in part
    assert "List-Unsubscribe-Post" in django_mail.outbox[0].extra_headers


def test_the_end_is_told_a_day_later_to_those_who_know_of_the_begin(team, job):
    slow_down(job)
    mailing.one_round()
    for _ in range(2):
        finished(job, 1.0)
    assert not Regression.objects.get().is_open
    mailing.one_round()
    assert len(subjects()) == 2
    a_day_passes()
    mailing.one_round()
    assert subjects()[2:] == ["nightly: the regression since run #5 is over"] * 2
    a_day_passes()
    mailing.one_round()
    assert len(subjects()) == 4


def test_one_that_is_over_before_its_mail_is_not_mailed_at_all(team, job):
    slow_down(job)
    for _ in range(2):
        finished(job, 1.0)
    mailing.one_round()
    assert subjects() == []


def test_an_accepted_one_is_not_mailed(team, job):
    slow_down(job)
    accepting.accept(Regression.objects.get(), team.owner, "larger images")
    mailing.one_round()
    assert subjects() == []


def test_one_that_no_longer_holds_is_withdrawn(team, job):
    slow_down(job)
    mailing.tasks.sweep()
    runs.edit(job.present_runs.get(number=5), team.owner, {"is_excluded": True})
    mailing.one_round()
    assert subjects() == []
    assert {mail.state for mail in Mail.objects.all()} == {Mail.WITHDRAWN}


def test_a_row_that_is_written_again_is_no_news(team, job):
    slow_down(job)
    mailing.one_round()
    Regression.objects.all().delete()
    finished(job, 1.3)
    a_day_passes()
    mailing.one_round()
    assert len(subjects()) == 2


def test_two_jobs_are_two_mails_and_a_job_without_a_price_says_so(team, job):
    slow_down(job)
    unpriced = factories.job(team.workspace, "weekly")
    for slow in (*CALM, 1.3, 1.3):
        finished(unpriced, slow, cost=None)
    mailing.one_round()
    assert len(subjects()) == 4
    bodies = [m.body for m in django_mail.outbox if m.subject.startswith("weekly")]
    assert all("not known, because no run has a price" in body for body in bodies)


def test_sample_data_is_not_mailed(team, job):
    team.workspace.is_sample_data = True
    team.workspace.save()
    slow_down(job)
    mailing.one_round()
    assert subjects() == []


def test_a_mail_that_was_withdrawn_holds_back_no_other_news_and_has_no_end(team, job):
    slow_down(job)
    mailing.tasks.sweep()
    for _ in range(2):
        finished(job, 1.0)
    mailing.one_round()
    assert subjects() == []
    for _ in range(3):
        finished(job, 1.5)
    mailing.one_round()
    assert {subject.partition(":")[2] for subject in subjects()} == {
        " +50 % machine time for the same work since run #9"
    }


def test_what_old_runs_tell_is_no_news(team, job):
    slow_down(job)
    a_month_before = timezone.now() - timedelta(days=40)
    job.runs.update(started_at=a_month_before, ended_at=a_month_before + timedelta(seconds=765))
    mailing.one_round()
    assert subjects() == []

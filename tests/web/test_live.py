"""Pages keep themselves fresh: a poll is cheap as long as nothing has changed."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from advisor.costing.projection import Projection
from tests.html import read_page
from tests.web import factories
from webapp.analysis.models import Analysis
from webapp.directives.models import Directive
from webapp.runs.models import Attempt, Run

MOST_QUERIES = 10
"""The most queries of a poll that finds nothing new, with those that sign the person in. Its CPU
time is checked by `bench.pages`."""


def _version(html: str) -> str:
    found = re.search(r'data-version="([^"]*)"', html)
    assert found is not None
    return found[1].replace("&quot;", '"')


def _poll(person, address: str, version: str):  # type: ignore[no-untyped-def]
    headers = {"Trimtab-Live": "1", "If-None-Match": version}
    return person.client.get(address, headers=headers)


@pytest.fixture
def run(owner) -> Run:
    run = factories.run(factories.job(owner.workspace), state=Run.RUNNING)
    Attempt.objects.create(run=run, number=0)
    factories.analysis(run)
    return run


def _addresses(run: Run) -> list[str]:
    return ["/", "/jobs/", "/jobs/?group=owner", reverse("dashboard:run", args=[run.pk])]


def test_nothing_is_sent_again_while_nothing_changes(owner, run):
    for address in _addresses(run):
        version = _version(owner.page(address))
        with CaptureQueriesContext(connection) as captured:
            answer = _poll(owner, address, version)

        assert (answer.status_code, answer.content) == (304, b""), address
        assert len(captured) <= MOST_QUERIES, address


def test_a_run_that_goes_on_is_news(owner, run):
    for address in _addresses(run):
        version = _version(owner.page(address))
        run.cost_usd = (run.cost_usd or Decimal(0)) + 1
        run.save()

        answer = _poll(owner, address, version)

        assert answer.status_code == 200, address
        assert answer["ETag"] != version
        assert _poll(owner, address, answer["ETag"]).status_code == 304


def test_a_finished_analysis_an_ended_run_and_a_new_one_are_news(owner, run):
    address = "/"
    known = {_version(owner.page(address))}

    def is_news() -> bool:
        version = _version(owner.page(address))
        was_known = version in known
        known.add(version)
        return not was_known

    Analysis.objects.filter(run=run).update(wanted=2)
    assert is_news()
    Run.objects.filter(pk=run.pk).update(state=Run.FINISHED)
    assert is_news()
    Analysis.objects.filter(run=run).update(wanted=3, done=3)
    assert is_news()
    factories.run(run.job)
    assert is_news()
    assert not is_news()


def test_what_was_asked_of_a_running_run_is_news(owner, run):
    address = reverse("dashboard:run", args=[run.pk])
    version = _version(owner.page(address))

    attempt = Attempt.objects.get(run=run)
    Directive.objects.create(attempt=attempt, kind=Directive.PROFILE, asked_by="Ada")

    assert _poll(owner, address, version).status_code == 200


def test_what_another_person_changes_is_news(owner, run):
    version = _version(owner.page("/jobs/"))

    owner.client.post(reverse("runs:edit_job", args=[run.job.uuid]), {"name": "renamed"})

    assert _poll(owner, "/jobs/", version).status_code == 200


def test_another_workspace_is_no_news(owner, stranger, run):
    version = _version(owner.page("/"))

    factories.run(factories.job(stranger.workspace), state=Run.RUNNING)

    assert _poll(owner, "/", version).status_code == 304


def test_a_page_that_a_person_opens_is_always_made_anew(owner, run):
    version = _version(owner.page("/"))

    answer = owner.client.get("/", headers={"If-None-Match": version})

    assert answer.status_code == 200
    assert "ETag" not in answer


def test_the_empty_home_page_polls_cheaply_until_there_is_a_job(owner):
    version = _version(owner.page("/"))
    assert _poll(owner, "/", version).status_code == 304

    factories.job(owner.workspace)

    assert _poll(owner, "/", version).status_code == 200


def test_a_running_run_says_what_it_will_cost(owner):
    projected = Projection(
        unit="epochs",
        done=4.5,
        planned=10,
        seconds_left=1100.0,
        usd=Decimal("2.2"),
    )
    job = factories.job(owner.workspace)
    factories.run(
        job, cost="1.00", state=Run.RUNNING, summary=factories.summary(projected=projected)
    )

    home, jobs = (re.sub(r"<[^>]+>|\s+", " ", owner.page(page)) for page in ("/", "/jobs/"))

    assert "about 18 m 20 s left" in home
    assert "$2.20 expected" in home
    assert "$2.20 expected, 18 m 20 s left" in jobs


@pytest.mark.parametrize("is_set", [True, False])
def test_the_first_steps_name_the_address_of_the_service(owner, settings, is_set):
    settings.BASE_URL, settings.BASE_URL_IS_SET = "https://trimtab.example.org", is_set

    page = read_page(owner.client.get("/", headers={"Host": "localhost:9123"}))

    expected = "https://trimtab.example.org" if is_set else "http://localhost:9123"
    assert f"export TRIMTAB_URL={expected}\n" in page

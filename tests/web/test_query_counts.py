"""Pages need the same number of queries for much data as for little."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.web import factories, training
from webapp.accounts.models import Token
from webapp.runs.models import Run
from webapp.spend.models import Budget

MOST_QUERIES = 22


def _count(person, address: str, most: int = MOST_QUERIES) -> int:  # type: ignore[no-untyped-def]
    with CaptureQueriesContext(
        connection,
    ) as captured:
        person.page(address)
    assert len(captured) <= most, [query["sql"] for query in captured.captured_queries]
    return len(captured)


def _full_run(job):  # type: ignore[no-untyped-def]
    run = factories.run(job)
    factories.node(run)
    factories.costed(run)
    factories.judgement(run)
    factories.recommendation(run)
    return run


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/jobs/",
        "/jobs/?group=owner",
        "/jobs/?owner=ada&tag=team%3Dvision",
        "/jobs.csv",
        "/runs/",
        "/runs/?label=effective",
        "/recommendations/",
        "/recommendations.csv",
        "/savings/",
        "",
    ],
)
def test_a_list_of_many_runs_asks_as_often_as_one_of_few(owner, address):
    job = factories.job(owner.workspace, owner="ada", tags={"team": "vision"})
    address = address or reverse("dashboard:job", args=[job.uuid])
    for _ in range(2):
        _full_run(job)
    few = _count(owner, address)

    for number in range(12):
        _full_run(job)
        _full_run(factories.job(owner.workspace, f"other-{number}"))

    assert _count(owner, address) == few


def test_the_home_page_asks_as_often_with_much_of_everything(owner):
    job = factories.job(owner.workspace)
    _full_run(job)
    Budget.objects.create(workspace=owner.workspace, amount_usd="0.01")
    tag = {"tag_key": "team", "tag_value": "vision"}
    Budget.objects.create(workspace=owner.workspace, **tag, amount_usd="0.01")
    Budget.objects.create(workspace=owner.workspace, job=job, amount_usd="0.01")
    factories.run(job, state=Run.FAILED)
    factories.run(job, state=Run.RUNNING)
    few = _count(owner, "/", most=25)

    for number in range(6):
        other = factories.job(owner.workspace, f"other-{number}")
        Budget.objects.create(workspace=owner.workspace, job=other, amount_usd="0.01")
        run = _full_run(other)
        running = factories.run(other, state=Run.RUNNING)
        factories.judgement(running, "hung")
        factories.run(other, state=Run.FAILED, cost=None)
        factories.regression(run)

    assert _count(owner, "/", most=25) == few


def test_a_long_run_asks_as_often_as_a_short_one(owner):
    short, long = (
        factories.costed(training.uploaded_run(owner.workspace, job=name, minutes=minutes))
        for name, minutes in (("short", 0.5), ("long", 3))
    )
    for run in (short, long):
        factories.judgement(run)

    assert _count(owner, reverse("dashboard:run", args=[long.pk])) == _count(
        owner, reverse("dashboard:run", args=[short.pk])
    )


def test_a_run_of_many_nodes_and_rules_asks_as_often_as_one_of_few(owner):
    job = factories.job(owner.workspace)
    small, large = _full_run(job), factories.run(job)
    for number in range(6):
        factories.node(large)
        factories.judgement(large, f"rule_{number}")
        factories.recommendation(large)
    factories.costed(large)
    # Both have a neighbour on one side only.
    few = _count(owner, reverse("dashboard:run", args=[small.pk]))

    assert _count(owner, reverse("dashboard:run", args=[large.pk])) == few


def test_a_comparison_asks_as_often_for_long_runs_as_for_short_ones(owner):
    counts = []
    for minutes in (0.5, 2):
        a, b = (training.uploaded_run(owner.workspace, minutes=minutes) for _ in range(2))
        counts.append(_count(owner, reverse("dashboard:compare") + f"?a={a.pk}&b={b.pk}"))

    assert counts[0] == counts[1]


def test_the_list_of_jobs_in_the_api_asks_as_often_for_many(owner, client):
    token = Token.make(owner.workspace, "script", ["read"])[1]
    headers = {"Authorization": f"Bearer {token}"}

    def count() -> int:
        client.get("/api/v1/jobs", headers=headers)
        with CaptureQueriesContext(connection) as captured:
            assert client.get("/api/v1/jobs", headers=headers).status_code == 200
        return len(captured)

    _full_run(factories.job(owner.workspace))
    few = count()
    for number in range(9):
        _full_run(factories.job(owner.workspace, f"other-{number}"))

    assert count() == few

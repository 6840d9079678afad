"""The read API: what the pages show, for scripts."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.test import Client
from django.utils import timezone

from tests.web import factories, training
from webapp.accounts.models import Token
from webapp.runs.models import Run


def _bearer(workspace, *scopes: str) -> dict[str, str]:  # type: ignore[no-untyped-def]
    return {"Authorization": f"Bearer {Token.make(workspace, 'script', list(scopes))[1]}"}


@pytest.fixture
def run(owner) -> Run:
    return factories.run(factories.job(owner.workspace), cost="0.014200001")


def _get(workspace, address: str, scope: str = "read"):  # type: ignore[no-untyped-def]
    return Client().get(f"/api/v1{address}", headers=_bearer(workspace, scope))


def test_a_run_tells_its_cost_to_the_nano_dollar(owner, run):
    answer = _get(owner.workspace, f"/runs/{run.pk}").json()

    assert answer["job"]["name"] == run.job.name
    assert answer["state"] == "finished"
    assert answer["duration_seconds"] == 600
    assert Decimal(answer["cost_usd"]) == Decimal("0.014200001")
    assert answer["cost_is_at_least"] is False
    assert answer["url"].endswith(f"/runs/{run.pk}/")


def test_a_run_without_a_price_has_a_null_and_the_reason(owner):
    missing = ["no price for x9.huge in region us-east-1 on demand"]
    run = factories.run(
        factories.job(owner.workspace), cost=None, summary=factories.summary(missing=missing)
    )

    answer = _get(owner.workspace, f"/runs/{run.pk}").json()

    assert answer["cost_usd"] is None
    assert answer["missing_prices"] == missing


@pytest.mark.parametrize(
    ("state", "at_least"), [("running", True), ("lost", True), ("failed", False)]
)
def test_the_cost_of_a_run_that_may_go_on_is_at_least_that(owner, state, at_least):
    run = factories.run(factories.job(owner.workspace), state=state)

    assert _get(owner.workspace, f"/runs/{run.pk}").json()["cost_is_at_least"] is at_least


def test_findings_are_the_fired_rules_only(owner, run):
    factories.judgement(run, "input_bound", "fired")
    factories.judgement(run, "cpu_oversized", "passed")

    findings = _get(owner.workspace, f"/runs/{run.pk}").json()["findings"]

    assert [finding["rule"] for finding in findings] == ["input_bound"]
    assert Decimal(findings[0]["waste_usd_high"]) == Decimal("0.0088")
    assert findings[0]["title"]


def test_a_finding_names_the_one_that_explains_it_and_counts_no_waste_again(owner, run):
    small = {"waste_usd_low": Decimal("0.001"), "waste_usd_high": Decimal("0.003")}
    nothing = {"waste_seconds_high": 0.0, "waste_usd_low": 0, "waste_usd_high": 0}
    taken = {"explained_by": "input_bound", "taken": [["input_bound", 340.0, "0.0088"]]}
    factories.judgement(run, "batch_size", **nothing, **taken)
    factories.judgement(run, "epoch_gaps", waste_seconds_high=100.0, **small)
    factories.judgement(run, "input_bound")

    findings = _get(owner.workspace, f"/runs/{run.pk}").json()["findings"]

    assert [(each["rule"], each["explained_by"]) for each in findings] == [
        ("input_bound", ""),
        ("batch_size", "input_bound"),
        ("epoch_gaps", ""),
    ]
    assert findings[1]["taken"] == [{"rule": "input_bound", "seconds": 340.0, "usd": "0.0088"}]
    assert [Decimal(each["waste_usd_high"]) for each in findings] == [
        Decimal("0.0088"), 0, Decimal("0.003")
    ]  # fmt: skip


def test_recommendations_come_with_their_interval(owner, run):
    factories.recommendation(run)

    (answer,) = _get(owner.workspace, f"/runs/{run.pk}").json()["recommendations"]

    assert Decimal(answer["saving_low_usd"]) < Decimal(answer["saving_usd"])
    assert Decimal(answer["saving_usd"]) < Decimal(answer["saving_high_usd"])


def test_an_agent_may_read_the_run_that_it_uploads(owner, run):
    address = f"/runs/{run.pk}"
    assert _get(owner.workspace, address, "ingest").status_code == 404
    headers = _bearer(owner.workspace, "ingest")
    run.uploaders.set(Token.objects.all())
    assert Client().get(f"/api/v1{address}", headers=headers).status_code == 200


def test_an_agent_may_not_list_the_jobs(owner):
    answer = _get(owner.workspace, "/jobs", "ingest")

    assert answer.status_code == 403
    assert "read" in answer.json()["fix"]


def test_a_stranger_gets_404_for_a_run(stranger, run):
    answer = _get(stranger.workspace, f"/runs/{run.pk}")

    assert answer.status_code == 404
    assert answer["Content-Type"] == "application/problem+json"


def test_without_a_token_the_answer_is_401_and_says_what_to_send(client, run):
    answer = client.get(f"/api/v1/runs/{run.pk}")

    assert answer.status_code == 401
    assert "Bearer" in answer.json()["fix"]


def test_a_revoked_token_reads_nothing(client, owner, run):
    headers = _bearer(owner.workspace, "read")
    Token.objects.update(revoked_at=timezone.now())

    assert client.get(f"/api/v1/runs/{run.pk}", headers=headers).status_code == 401


def test_jobs_come_in_pages_each_once(owner, stranger):
    factories.job(stranger.workspace, "secret/train.py")
    names = [f"team/job-{i}" for i in range(5)]
    for name in names:
        factories.run(factories.job(owner.workspace, name))

    listed, cursor = [], ""
    while cursor is not None:
        answer = _get(owner.workspace, f"/jobs?limit=2&cursor={cursor}").json()
        listed += answer["jobs"]
        cursor = answer["next_cursor"]

    assert [job["name"] for job in listed] == names
    assert all(job["run_count"] == 1 and job["last_run"] for job in listed)


@pytest.mark.parametrize(
    ("query", "field"), [("cursor=next", "cursor"), ("limit=0", "limit"), ("limit=many", "limit")]
)
def test_a_bad_page_is_refused_by_the_name_of_its_field(owner, query, field):
    answer = _get(owner.workspace, f"/jobs?{query}")

    assert answer.status_code == 422
    assert field in answer.json()["field"]


def test_the_samples_of_a_run_can_be_read_with_a_token(owner, stranger):
    run = training.uploaded_run(owner.workspace)
    address = f"/runs/{run.pk}/series?names=host.cpu_busy_pct&from=0&to=30&buckets=10"

    answer = _get(owner.workspace, address)

    (one_series,) = answer.json()["series"]
    assert answer["ETag"]
    assert 1 < len(one_series["t"]) <= 10
    assert max(one_series["t"]) < 30
    assert _get(stranger.workspace, address).status_code == 404
    assert _get(owner.workspace, address, "ingest").status_code == 403


def test_a_bad_question_for_samples_names_its_field(owner, run):
    answer = _get(owner.workspace, f"/runs/{run.pk}/series?names=a.b&buckets=5000")

    assert answer.status_code == 400
    assert answer.json()["field"] == "buckets"


def test_the_description_names_both_ways_to_a_run(client, db):
    paths = client.get("/api/v1/openapi.json").json()["paths"]

    assert {"get", "put"} <= set(paths["/api/v1/runs/{run_id}"])
    assert "get" in paths["/api/v1/jobs"]

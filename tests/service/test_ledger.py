"""The waste ledger through the service: it adds up to the cost, also after later changes."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from advisor.run_summary import to_document
from rules.ledger import VERSION
from tests.html import read_page
from tests.service.uploads import FakeAgent
from tests.upgrade.uploads import send
from tests.web import factories
from webapp.accounts.models import Token
from webapp.analysis.renewal import reanalysis, repricing
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Node, Run
from webapp.sample_data.histories import WORKSPACE
from webapp.sample_data.load import uploads_of
from webapp.sample_data.published import published_runs
from webapp.thresholds.models import ParameterValue

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def reader(workspace) -> dict[str, str]:  # type: ignore[no-untyped-def]
    _, plain = Token.make(workspace, "all", [Token.INGEST, Token.READ])
    return {"Authorization": f"Bearer {plain}"}


@pytest.fixture
def ledger_of(client: Any, reader: dict[str, str]) -> Any:
    """Return a function that asks the API about a run: label -> dollars, and the whole answer."""

    def told(run_id: Any) -> tuple[dict[str, Decimal | None], dict[str, Any]]:
        document = client.get(f"/api/v1/runs/{run_id}", headers=reader).json()
        usd = {line["label"]: line["usd"] for line in document["ledger"]}
        return {label: Decimal(v) if v else None for label, v in usd.items()}, document

    return told


def test_the_published_case_says_what_the_unused_and_the_start_cost(
    live_server: Any, client: Any, workspace: Any, reader: dict[str, str], ledger_of: Any
) -> None:
    for upload in uploads_of(published_runs(WORKSPACE)[0]):
        send(live_server.url, reader["Authorization"].removeprefix("Bearer "), upload)
    run = Run.objects.get(job__name="review-sentiment/train.py")
    evaluate(str(run.pk))
    usd, document = ledger_of(run.pk)
    assert sum(usd.values()) == Decimal(document["cost_usd"]) == Decimal("6.15672")
    assert usd["unused_gpu"] == Decimal("6.15672") / 4
    assert usd["initialise"] == pytest.approx(Decimal("6.15672") * 9 / 12 * Decimal("0.44"))
    client.force_login(factories.member(workspace))
    page = read_page(client.get(f"/runs/{run.pk}/"))
    assert 'id="ledger"' in page
    assert "Unused GPU" in page
    assert "$1.54" in page


def _finish(agent: FakeAgent, segments: int = 6) -> Run:
    agent.declare()
    for segment in agent.segments(segments):
        assert agent.put(segment).status_code == 200
    evaluate(str(agent.run_id))
    return Run.objects.get(pk=agent.run_id)


def test_analysing_again_changes_nothing_and_a_late_segment_is_counted(agent, ledger_of):
    agent.declare()
    first, second, last = agent.segments(3)
    for segment in (first, last):
        agent.put(segment)
    evaluate(str(agent.run_id))
    before, document = ledger_of(agent.run_id)
    assert sum(before.values()) == Decimal(document["cost_usd"])
    assert "gap" in before
    evaluate(str(agent.run_id))
    assert ledger_of(agent.run_id)[0] == before
    agent.put(second)
    evaluate(str(agent.run_id))
    after, document = ledger_of(agent.run_id)
    assert sum(after.values()) == Decimal(document["cost_usd"])
    assert "gap" not in after


def test_a_run_without_a_price_has_its_time_and_no_dollars(agent, client, reader, ledger_of):
    agent.instance_type = ""
    run = _finish(agent)
    usd, document = ledger_of(run.pk)
    assert usd
    assert set(usd.values()) == {None}
    seconds = sum(line["seconds"] for line in document["ledger"])
    assert seconds == pytest.approx(60)


def test_dollars_follow_a_new_price_when_the_samples_are_gone(agent, ledger_of):
    run = _finish(agent)
    before, _ = ledger_of(run.pk)
    Run.objects.filter(pk=run.pk).update(raw_deleted_at=timezone.now())
    Node.objects.filter(attempt__run=run).update(instance_type="c5.xlarge")
    with transaction.atomic():
        repricing.reprice_run(Run.objects.get(pk=run.pk))
    after, document = ledger_of(run.pk)
    assert sum(after.values()) == Decimal(document["cost_usd"])
    assert after.keys() == before.keys()
    for label, usd in after.items():
        assert usd == pytest.approx(before[label] * 2, abs=Decimal("1e-8"))


def test_the_floor_in_dollars_follows_a_new_price_when_the_samples_are_gone(agent, workspace):
    """Half a dollar of waste is above it, a cent is not; with samples or without."""
    ParameterValue.objects.create(
        workspace=workspace, rule="materiality", name="least_waste_usd", value=0.1
    )
    run = _finish(agent)
    found = run.judgements.get(rule="input_bound")
    assert (found.state, found.first_fired_at) == ("passed", None)
    assert "below the materiality floor" in found.summary
    Run.objects.filter(pk=run.pk).update(raw_deleted_at=timezone.now())
    for instance_type, state in (("p5.48xlarge", "fired"), ("c5.large", "passed")):
        Node.objects.filter(attempt__run=run).update(instance_type=instance_type)
        with transaction.atomic():
            repricing.reprice_run(Run.objects.get(pk=run.pk))
        found.refresh_from_db()
        assert found.state == state
        assert (
            bool(found.waste_usd_high) is (found.first_fired_at is not None) is (state == "fired")
        )


def test_a_job_adds_up_the_runs_of_the_last_days(client, workspace, agent, settings):
    run = _finish(agent)
    client.force_login(factories.member(workspace))
    page = f"/jobs/{run.job.uuid}/"
    assert "Cost breakdown" in read_page(client.get(page))
    long_ago = timezone.now() - timedelta(days=31)
    Run.objects.filter(pk=run.pk).update(started_at=long_ago, ended_at=long_ago)
    assert "Cost breakdown" not in read_page(client.get(page))


def test_a_ledger_of_an_earlier_version_is_kept_and_says_so(client, workspace, agent, ledger_of):
    run = _finish(agent)
    before, _ = ledger_of(run.pk)
    _make_earlier(run)
    after, document = ledger_of(run.pk)
    assert after == before
    assert document["summary"]["ledger_version"] == 1
    client.force_login(factories.member(workspace))
    assert "An earlier version labelled this time" in read_page(client.get(f"/runs/{run.pk}/"))


def test_it_is_renewed_once_where_samples_remain(agent, ledger_of):
    run = _finish(agent)
    assert reanalysis.queue_outdated(timezone.now()) == 0
    _make_earlier(run)
    assert reanalysis.queue_outdated(timezone.now()) == 1
    evaluate(str(run.pk))
    assert ledger_of(run.pk)[1]["summary"]["ledger_version"] == VERSION
    assert reanalysis.queue_outdated(timezone.now()) == 0


def test_a_speed_that_an_earlier_release_did_not_measure_is_measured_once(agent):
    run = _finish(agent)
    _make_earlier(run, "speed_version")
    assert reanalysis.queue_outdated(timezone.now()) == 1
    evaluate(str(run.pk))
    assert reanalysis.queue_outdated(timezone.now()) == 0


def test_a_judgement_by_an_earlier_version_of_its_rule_is_renewed_too(agent):
    run = _finish(agent)
    rule = run.judgements.get(rule="low_gpu_utilization")
    run.judgements.filter(pk=rule.pk).update(rule_version=rule.rule_version - 1)
    assert reanalysis.queue_outdated(timezone.now()) == 1
    evaluate(str(run.pk))
    assert run.judgements.get(rule="low_gpu_utilization").rule_version == rule.rule_version


def test_costs_without_what_each_second_cost_are_renewed_too(agent):
    run = _finish(agent)
    run.cost_parts.update(charges=None)
    assert reanalysis.queue_outdated(timezone.now()) == 1
    evaluate(str(run.pk))
    assert not run.cost_parts.filter(charges__isnull=True).exists()
    assert reanalysis.queue_outdated(timezone.now()) == 0


def test_without_samples_or_after_a_month_nothing_is_renewed(agent):
    run = _finish(agent)
    _make_earlier(run)
    long_ago = timezone.now() - timedelta(days=31)
    Run.objects.filter(pk=run.pk).update(started_at=long_ago, ended_at=long_ago)
    assert reanalysis.queue_outdated(timezone.now()) == 0
    now = timezone.now()
    Run.objects.filter(pk=run.pk).update(started_at=now, ended_at=now, raw_deleted_at=now)
    assert reanalysis.queue_outdated(now) == 0


def _make_earlier(run: Run, version: str = "ledger_version") -> None:
    """Store the summary as a release before that version saved it."""
    document = to_document(Run.objects.get(pk=run.pk).summary)
    del document[version]
    Run.objects.filter(pk=run.pk).update(summary=document)

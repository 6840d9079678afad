"""Sessions have bounds, an analysis has bounds, and nothing honest is lost to either."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.test import Client
from trimtab.wire import Block

from advisor.store import room
from tests.html import read_page
from tests.service.uploads import SEGMENT_MS, FakeAgent
from webapp.analysis.judging import evaluation
from webapp.analysis.models import Analysis, CostPart, Judgement, LedgerEntry
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Run, Segment

pytestmark = pytest.mark.django_db
DAY_MS = 86_400_000
LONGEST_MS = 1_100 * DAY_MS


def began_before(agent: FakeAgent, days: float) -> FakeAgent:
    agent.started_at_ns = time.time_ns() - int(days * 86_400 * 1e9)
    return agent


def test_a_session_of_more_than_three_years_is_refused_with_field_and_fix(agent):
    assert agent.put(agent.segment(0)).status_code == 200
    for start_ms in (LONGEST_MS - SEGMENT_MS + 1, 31 * 365 * DAY_MS):
        answer = agent.put(agent.segment(1, start_ms=start_ms))
        assert answer.status_code == 400
        assert answer.json()["field"] == "start_ms"
        assert "at most 1,100 days" in answer.json()["detail"]
        assert "restart the agent" in answer.json()["fix"]
    assert Segment.objects.count() == 1


@pytest.mark.parametrize("days", [60, 1_100])
def test_a_long_training_and_a_long_suspension_are_taken(agent, days):
    began_before(agent, days)
    agent.declare()
    agent.put(agent.segment(0))
    answer = agent.put(agent.segment(1, last=True, start_ms=days * DAY_MS - SEGMENT_MS))
    assert answer.status_code == 200, answer.json()
    evaluate(str(agent.run_id))
    run = Run.objects.get(pk=agent.run_id)
    assert Analysis.objects.get(run=run).error == ""
    assert run.duration == timedelta(days=days)
    assert run.summary.unsampled_seconds == pytest.approx(days * 86_400, abs=5 * 3600)
    assert run.summary.steps == 100
    assert CostPart.objects.filter(run=run).count() in (days, days + 1)
    assert sum(entry.usd or 0 for entry in LedgerEntry.objects.filter(run=run)) == run.cost_usd


def test_a_clock_of_1970_on_one_node_is_taken_and_makes_no_cells(agent, token):
    """The node's clock was set between the start of the session and the first upload."""
    agent.put(agent.segment(0))
    wrong = FakeAgent(agent.client, token, run_id=agent.run_id, machine_id="machine-2")
    wrong.started_at_ns = 10**9
    assert wrong.put(wrong.segment(0)).status_code == 200
    agent.declare()
    wrong.declare()
    evaluate(str(agent.run_id))
    run = Run.objects.get(pk=agent.run_id)
    assert Analysis.objects.get(run=run).error == ""
    assert run.duration is not None
    assert run.duration > timedelta(days=50 * 365)
    assert CostPart.objects.filter(run=run).count() == 2
    assert run.summary.steps == 100


def test_more_samples_than_a_machine_takes_are_refused(agent):
    def of(count: int, series: int) -> list[Block]:
        names = [f"user.value{n}_count" for n in range(series)]
        return [Block(list(range(count)), {name: [1] * count for name in names})]

    fits = agent.segment(0, duration_ms=1_000, blocks=of(5, 4_000), steps=[])
    assert agent.put(fits).status_code == 200
    answer = agent.put(agent.segment(1, duration_ms=999, blocks=of(7, 3_000), steps=[]))
    assert answer.status_code == 400
    assert answer.json()["field"] == "blocks"
    assert "20,000 a second" in answer.json()["detail"]


def test_what_is_too_large_is_not_judged_and_says_of_what(agent, monkeypatch):
    agent.declare()
    agent.put(agent.segment(0))
    agent.put(agent.segment(1, last=True))
    monkeypatch.setattr(room, "MOST_SERIES", 2)
    advised = "webapp.advice.advising.recommendations"
    monkeypatch.setattr(advised, lambda _: pytest.fail("nothing follows from it"))
    evaluate(str(agent.run_id))
    run = Run.objects.get(pk=agent.run_id)
    assert Analysis.objects.get(run=run).error == ""
    assert run.summary.too_large == "more than 2 series"
    states = set(Judgement.objects.filter(run=run).values_list("state", "summary"))
    assert states == {("insufficient_data", "Too large to judge: more than 2 series.")}
    assert [entry.label for entry in LedgerEntry.objects.filter(run=run)] == ["unclassified"]
    assert run.cost_usd
    assert run.summary.steps is None


def test_what_fits_again_is_judged_again(agent, monkeypatch):
    agent.put(agent.segment(0))
    with monkeypatch.context() as patch:
        patch.setattr(room, "MOST_SERIES", 2)
        evaluate(str(agent.run_id))
    agent.put(agent.segment(1, last=True))
    evaluate(str(agent.run_id))
    run = Run.objects.get(pk=agent.run_id)
    assert run.summary.too_large == ""
    assert run.judgements.exclude(state="insufficient_data").exists()


def test_a_look_that_is_too_large_leads_to_one_whole_analysis(agent, monkeypatch):
    agent.put(agent.segment(0))
    monkeypatch.setattr(room, "MOST_SERIES", 2)
    evaluate(str(agent.run_id))
    Analysis.objects.update(seconds=0)
    agent.put(agent.segment(1))
    evaluate(str(agent.run_id))
    analysis = Analysis.objects.get(run_id=agent.run_id)
    assert analysis.done < analysis.wanted
    assert analysis.looked_at is not None


def test_the_days_of_all_nodes_are_bounded_before_they_are_rows(agent, monkeypatch):
    began_before(agent, 10)
    agent.put(agent.segment(0, start_ms=9 * DAY_MS, last=True))
    monkeypatch.setattr(evaluation, "MOST_NODE_DAYS", 5)
    evaluate(str(agent.run_id))
    analysis = Analysis.objects.get(run_id=agent.run_id)
    assert analysis.given_up_at is not None
    assert analysis.error == (
        "The run is too large to analyse: it has more than 5 days of all nodes together."
    )
    assert not CostPart.objects.exists()


@pytest.fixture
def page(agent, workspace, django_user_model):
    """Reads the run's page as its owner."""
    from webapp.accounts.models import Membership

    user = django_user_model.objects.create_user("ada@example.org")
    Membership.objects.create(user=user, workspace=workspace, role=Membership.OWNER)
    client = Client()
    client.force_login(user)
    return lambda: read_page(client.get(f"/runs/{agent.run_id}/"))


def test_the_run_page_says_what_is_too_large_and_what_has_no_samples(agent, page, monkeypatch):
    began_before(agent, 60)
    agent.declare()
    agent.put(agent.segment(0))
    agent.put(agent.segment(1, last=True, start_ms=59 * DAY_MS))
    evaluate(str(agent.run_id))
    assert "No samples for 58 d" in page()
    assert "too large to judge" not in page()
    monkeypatch.setattr(room, "MOST_SERIES", 2)
    Analysis.objects.update(wanted=99)
    evaluate(str(agent.run_id))
    assert "This run is too large to judge" in page()
    assert "It has more than 2 series." in page()
    assert "No rule fired" not in page()

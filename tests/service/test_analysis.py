"""The way from uploads to verdicts and cost, through the worker's own task."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db.models import Sum
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trimtab.wire import Event

from tests.service.uploads import FakeAgent
from webapp.analysis import queue
from webapp.analysis.models import Analysis, CostPart, Judgement
from webapp.analysis.samples import compaction
from webapp.analysis.tasks import evaluate
from webapp.background import claims, pulling
from webapp.runs.models import Chunk, Node, Run, Segment

pytestmark = pytest.mark.django_db
C5_LARGE_USD_PER_HOUR = Decimal("0.085")


def analysed(agent: FakeAgent) -> Run:
    evaluate(str(agent.run_id))
    analysis = Analysis.objects.get(run_id=agent.run_id)
    assert analysis.error == ""
    return Run.objects.get(pk=agent.run_id)


def send(agent: FakeAgent, count: int) -> None:
    agent.declare()
    for segment in agent.segments(count):
        assert agent.put(segment).status_code == 200


def test_it_counts_the_cost_of_a_finished_run_to_the_nano_dollar(agent):
    send(agent, 6)
    run = analysed(agent)
    expected = C5_LARGE_USD_PER_HOUR * 60 / 3600
    assert run.cost_usd == expected.quantize(Decimal("1e-9"))
    parts = CostPart.objects.filter(run=run)
    assert parts.aggregate(total=Sum("usd"))["total"] == run.cost_usd
    assert all(part.prices.exists() for part in parts)
    assert run.work == {"samples": 6 * 50 * 64, "steps": 300}


def test_two_runs_on_one_machine_at_once_pay_it_once(agent, token):
    """The first is priced again once the second is known. Shares add up to the machine's price."""
    send(agent, 6)
    alone = analysed(agent).cost_usd
    assert alone is not None
    other = FakeAgent(agent.client, token, job="other", started_at_ns=agent.started_at_ns)
    send(other, 3)
    shared = analysed(other).cost_usd
    first = Analysis.objects.get(run_id=agent.run_id)
    assert first.wanted > first.done
    total = analysed(agent).cost_usd
    assert total is not None
    assert shared is not None
    assert abs(shared * 4 - alone) <= Decimal("1e-8")
    assert abs(total + shared - alone) <= Decimal("1e-8")
    second = Analysis.objects.get(run_id=other.run_id)
    assert second.wanted == second.done, "they don't count each other for ever"


def test_it_finds_the_input_pipeline_and_recommends_to_fix_it(agent):
    send(agent, 6)
    run = analysed(agent)
    finding = Judgement.objects.get(run=run, rule="input_bound")
    assert (finding.state, finding.is_provisional) == ("fired", False)
    assert "60.0 %" in finding.summary
    assert finding.waste_usd_low < finding.waste_usd_high < run.cost_usd
    advice = run.job.recommendations.get(kind="fix_input_pipeline")
    assert Decimal(0) < advice.saving_low_usd <= advice.saving_usd <= advice.saving_high_usd
    assert advice.saving_high_usd <= run.cost_usd


def test_the_findings_of_a_run_count_at_most_its_cost(agent):
    send(agent, 6)
    run = analysed(agent)
    fired = run.judgements.filter(state=Judgement.FIRED)
    assert 0 < sum(row.waste_usd_high for row in fired) <= run.cost_usd
    assert "input_bound" in {row.rule for row in fired}
    assert {row.explained_by for row in fired} <= {"", "input_bound"}


def test_it_says_no_price_and_never_zero(agent):
    agent.instance_type = "x99.imaginary"
    send(agent, 3)
    run = analysed(agent)
    assert run.cost_usd is None
    assert "x99.imaginary" in run.summary.missing[0]
    assert Judgement.objects.get(run=run, rule="input_bound").waste_usd_low is None


def test_it_judges_a_running_run_provisionally_and_the_ended_one_finally(agent):
    agent.declare()
    agent.put(agent.segment(0))
    agent.put(agent.segment(1))
    analysed(agent)
    assert set(Judgement.objects.values_list("is_provisional", flat=True)) == {True}
    agent.put(agent.segment(2, last=True))
    analysed(agent)
    assert set(Judgement.objects.values_list("is_provisional", flat=True)) == {False}


def test_it_is_not_final_while_a_segment_is_known_to_be_missing(agent):
    agent.declare()
    agent.put(agent.segment(0))
    agent.put(agent.segment(2, last=True))
    assert analysed(agent).summary.missing_segments == 1
    assert not Analysis.objects.get().is_final
    agent.put(agent.segment(1))
    analysed(agent)
    assert Analysis.objects.get().is_final


def test_analysing_again_changes_nothing(agent):
    send(agent, 3)
    analysed(agent)
    before = snapshot(agent)
    Analysis.objects.update(done=0)
    analysed(agent)
    assert snapshot(agent) == before


def test_a_run_with_no_readable_sample_still_has_its_cost(agent, settings, tmp_path):
    send(agent, 3)
    settings.OBJECTS_URL = str(tmp_path / "elsewhere")
    run = analysed(agent)
    assert run.cost_usd is not None
    assert run.summary.unreadable == 3
    assert Judgement.objects.get(run=run, rule="input_bound").state == "insufficient_data"


def test_only_one_worker_gets_a_run_and_a_dead_one_loses_it(agent):
    agent.put(agent.segment(0))
    held = queue.claim(agent.run_id)
    assert held is not None
    assert queue.claim(agent.run_id) is None
    Analysis.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    second = queue.claim(agent.run_id)
    assert second is not None
    saved = []
    assert not queue.finish_analysis(held, lambda run: saved.append("late"), is_final=False)
    assert queue.finish_analysis(second, lambda run: saved.append("ours"), is_final=False)
    assert saved == ["ours"]


def test_a_poison_run_stops_after_three_attempts_and_shows_its_error(agent):
    agent.put(agent.segment(0))
    for _ in range(3):
        held = queue.claim(agent.run_id)
        claims.fail(held, ValueError("broken\x00"))
        Analysis.objects.update(due_at=timezone.now())
    assert queue.claim(agent.run_id) is None
    assert not pulling.sweep()
    assert "ValueError: broken" in Analysis.objects.get().error


def test_workers_that_die_cost_a_run_none_of_its_attempts_until_it_is_given_up(agent):
    """Three kills in a row happen: of a deployment, or for the memory that another run took."""
    agent.put(agent.segment(0))
    for _ in range(10):
        assert queue.claim(agent.run_id) is not None
        Analysis.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
        assert pulling.sweep()
        assert Analysis.objects.get().error == ""
    held = queue.claim(agent.run_id)
    assert held is not None
    Analysis.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    assert queue.claim(agent.run_id) is None
    assert not pulling.sweep()
    assert "10 workers died" in Analysis.objects.get().error
    # The last one was only slow.
    assert queue.finish_analysis(held, lambda run: None, is_final=False)
    assert Analysis.objects.get().error == ""
    agent.put(agent.segment(1))
    assert queue.claim(agent.run_id) is not None


def test_compaction_changes_no_figure(agent):
    send(agent, 4)
    analysed(agent)
    before = snapshot(agent)
    for node_id in Segment.objects.values_list("session__node_id", flat=True).distinct():
        compaction.compact_node(node_id)
    assert Chunk.objects.filter(kind="samples", tier_seconds=0).exists()
    assert not Segment.objects.filter(compacted_at=None).exists()
    compaction.delete_replaced(timezone.now() + timedelta(hours=2))
    Analysis.objects.update(done=0)
    analysed(agent)
    assert snapshot(agent) == before


def test_it_is_the_same_with_the_samples_in_s3(agent, token, settings, bucket_url):
    send(agent, 3)
    analysed(agent)
    settings.OBJECTS_URL = bucket_url
    elsewhere = FakeAgent(
        agent.client,
        token,
        job="elsewhere",
        started_at_ns=agent.started_at_ns,
        machine_id="machine-2",
    )
    send(elsewhere, 3)
    analysed(elsewhere)
    assert snapshot(elsewhere) == snapshot(agent)
    compaction.compact_node(node_of(elsewhere))
    Analysis.objects.update(done=0)
    analysed(elsewhere)
    assert snapshot(elsewhere) == snapshot(agent)


def node_of(agent: FakeAgent) -> int:
    return Node.objects.get(attempt__run=agent.run_id).pk


def snapshot(agent: FakeAgent) -> dict[str, object]:
    """Return every total that people see; the key of a workload names its job."""
    run = Run.objects.get(pk=agent.run_id)
    judged = Judgement.objects.filter(run=run)
    return {
        "cost": run.cost_usd,
        "parts": list(run.cost_parts.values_list("microseconds", "usd")),
        "seconds": run.duration,
        "state": run.state,
        "work": run.work,
        "metric_progress": run.metric_progress,
        "summary": replace(run.summary, workload_key=""),
        "judgements": list(judged.values_list("rule", "state", "summary", "numbers")),
        "recommended": list(run.job.recommendations.values_list("dedupe_key", "saving_usd")),
    }


# Each example uploads and analyses two runs.
@settings(
    max_examples=settings.default.max_examples // 4,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data(), skew_days=st.sampled_from([0, -2, 2]))
def test_any_order_replays_lateness_and_skew_give_the_same_totals(token, data, skew_days):
    """The uploads have NaN metrics and a series that is refused, too: nothing is refused whole."""
    straight, shaken = (
        FakeAgent(
            Client(),
            token,
            job=f"job-{uuid4()}",
            started_at_ns=STARTED_AT_NS,
            machine_id=f"machine-{uuid4()}",
        )
        for _ in range(2)
    )
    send(straight, 4)
    analysed(straight)
    shaken.skew_seconds = skew_days * 86_400
    segments = shaken.segments(4)
    for segment in segments:
        segment.events.append(Event(3, "metric", {"name": "loss", "value": float("nan")}))
    sent = data.draw(st.permutations(segments + segments[:2]))
    declared_after = data.draw(st.integers(0, len(sent)))
    for number, segment in enumerate(sent):
        if number == declared_after:
            shaken.declare()
        assert shaken.put(segment).status_code == 200
        if data.draw(st.booleans()):
            evaluate(str(shaken.run_id))
    if declared_after == len(sent):
        shaken.declare()
    Analysis.objects.filter(run_id=shaken.run_id).update(due_at=timezone.now())
    analysed(shaken)
    assert snapshot(shaken) == snapshot(straight)


# In the middle of a UTC day, so that a second of clock correction moves no cost across midnight.
STARTED_AT_NS = (int(time.time()) // 86_400 * 86_400 - 43_200) * 10**9


def test_advice_that_the_next_run_followed_is_claimed_by_it_and_comes_back_if_undone(agent, token):
    send(agent, 6)
    job = analysed(agent).job
    advice = job.recommendations.get(kind="fix_input_pipeline")
    assert advice.state == "active"

    def next_run(wait_us: int) -> Run:
        following = FakeAgent(agent.client, token)
        following.declare()
        for segment in following.segments(6):
            segment.steps[0].data_wait_us = [wait_us] * 50
            following.put(segment)
        return analysed(following)

    fixed = next_run(wait_us=1_000)
    advice.refresh_from_db()
    assert (advice.state, advice.claimed_by) == ("claimed", fixed)
    undone = next_run(wait_us=120_000)
    advice.refresh_from_db()
    assert (advice.state, advice.claimed_by, advice.reopened_by) == ("claimed", fixed, undone)


def test_a_running_node_with_many_segments_is_compacted_meanwhile(agent):
    for seq in range(compaction.MOST_HOT):
        assert compaction.due_nodes(timezone.now()) == []
        agent.put(agent.segment(seq))
    (node_id,) = compaction.due_nodes(timezone.now())
    compaction.compact_node(node_id)
    assert compaction.due_nodes(timezone.now()) == []


def test_advice_stays_open_while_a_later_run_is_too_short_to_tell(agent, token):
    send(agent, 6)
    job = analysed(agent).job
    short = FakeAgent(agent.client, token)
    short.declare()
    (segment,) = short.segments(1)
    for column in ("start_us", "duration_us", "data_wait_us", "samples"):
        setattr(segment.steps[0], column, getattr(segment.steps[0], column)[:3])
    assert short.put(segment).status_code == 200
    judged = analysed(short).judgements.get(rule="input_bound")
    assert judged.state == "insufficient_data"
    assert job.recommendations.get(kind="fix_input_pipeline").state == "active"


def test_a_months_saving_counts_only_runs_that_had_something_to_save(agent, token):
    def one_run(wait_us: int) -> Run:
        each = FakeAgent(agent.client, token, machine_id=f"machine-{uuid4()}")
        each.declare()
        for segment in each.segments(6):
            segment.steps[0].data_wait_us = [wait_us] * 50
            each.put(segment)
        return analysed(each)

    for _ in range(3):
        one_run(wait_us=1_000)
    one_run(wait_us=120_000)
    last = one_run(wait_us=120_000)
    advice = last.job.recommendations.get(kind="fix_input_pipeline")
    assert advice.monthly_saving_usd == 2 * advice.saving_usd

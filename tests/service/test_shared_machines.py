"""Runs that share a machine: whatever comes in between, the machine is paid once."""

from __future__ import annotations

from decimal import Decimal
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from tests.service.uploads import FakeAgent
from webapp.analysis import evaluation, outcome_rows, queue
from webapp.analysis.models import Analysis, CostPart
from webapp.analysis.tasks import evaluate, recount
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


def send(agent: FakeAgent, count: int) -> None:
    agent.declare()
    for segment in agent.segments(count):
        assert agent.put(segment).status_code == 200


def cost_usd(agent: FakeAgent) -> Decimal:
    cost = Run.objects.get(pk=agent.run_id).cost_usd
    assert cost is not None
    return cost


def is_due(agent: FakeAgent) -> bool:
    analysis = Analysis.objects.get(run_id=agent.run_id)
    return analysis.wanted > analysis.done


@pytest.fixture
def neighbour(agent: FakeAgent, token: str) -> FakeAgent:
    return FakeAgent(agent.client, token, job="other", started_at_ns=agent.started_at_ns)


@pytest.fixture
def overpaid(agent: FakeAgent, neighbour: FakeAgent) -> Decimal:
    """Counted before its neighbour had arrived, and written afterwards; its cost alone."""
    send(agent, 6)
    held = queue.claim(agent.run_id)
    assert held is not None
    outcome = evaluation.evaluate(held)
    send(neighbour, 3)
    assert queue.finish(held, lambda: outcome_rows.save(outcome), outcome.is_final)
    return cost_usd(agent)


def test_a_run_that_is_read_before_its_neighbour_arrives_is_counted_again(
    agent: FakeAgent, neighbour: FakeAgent, overpaid: Decimal
) -> None:
    evaluate(str(neighbour.run_id))
    assert is_due(agent)
    evaluate(str(agent.run_id))
    assert abs(cost_usd(agent) + cost_usd(neighbour) - overpaid) <= Decimal("1e-8")
    assert not is_due(neighbour), "they don't count each other for ever"


def test_a_run_that_is_written_after_its_neighbour_was_counted_is_counted_again(
    agent: FakeAgent, neighbour: FakeAgent
) -> None:
    send(agent, 6)
    held = queue.claim(agent.run_id)
    assert held is not None
    outcome = evaluation.evaluate(held)
    send(neighbour, 3)
    evaluate(str(neighbour.run_id))
    assert queue.finish(held, lambda: outcome_rows.save(outcome), outcome.is_final)
    alone = cost_usd(agent)
    assert is_due(agent)
    evaluate(str(agent.run_id))
    assert abs(cost_usd(agent) + cost_usd(neighbour) - alone) <= Decimal("1e-8")


def _miscount(agent: FakeAgent) -> None:
    """As if it had been counted without its neighbour."""
    part = CostPart.objects.filter(run_id=agent.run_id).get()
    CostPart.objects.filter(pk=part.pk).update(usd=2 * part.usd)
    Run.objects.filter(pk=agent.run_id).update(cost_usd=2 * part.usd)


@pytest.fixture
def counted(agent: FakeAgent, neighbour: FakeAgent) -> Decimal:
    """The cost of a run beside another, both counted."""
    for each, count in ((agent, 6), (neighbour, 3)):
        send(each, count)
        evaluate(str(each.run_id))
    evaluate(str(agent.run_id))
    return cost_usd(agent)


def test_the_sweep_counts_runs_on_shared_machines_again(agent: FakeAgent, counted: Decimal) -> None:
    recount()
    assert not is_due(agent)
    _miscount(agent)
    recount()
    assert is_due(agent)
    evaluate(str(agent.run_id))
    assert cost_usd(agent) == counted


def test_the_command_proves_that_all_costs_equal_a_fresh_count(
    agent: FakeAgent, counted: Decimal
) -> None:
    said = StringIO()
    call_command("recount", "--check", stdout=said)
    assert "2 runs: all costs equal a fresh count" in said.getvalue()
    _miscount(agent)
    with pytest.raises(CommandError, match="1 of 2 runs"):
        call_command("recount", "--check", stdout=said)
    assert f"{agent.run_id}" in said.getvalue()
    assert cost_usd(agent) == 2 * counted, "a check changes nothing"
    assert "Left out" not in said.getvalue()
    call_command("recount", stdout=said)
    assert cost_usd(agent) == counted
    call_command("recount", "--check", stdout=said)
    assert "Left out: 1 run whose analysis" in said.getvalue(), "its recommendations are due"

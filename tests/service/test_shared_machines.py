"""Runs that share a machine: whatever comes in between, the machine is paid once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from trimtab.wire import NodeFacts

from tests.service.uploads import FakeAgent
from webapp.accounts.models import Token, Workspace
from webapp.analysis import queue
from webapp.analysis.judging import evaluation
from webapp.analysis.models import Analysis, CostPart
from webapp.analysis.results import outcome_rows
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


NS = 10**9
OWNED = NodeFacts(
    machine_id="machine-1",
    provider="aws",
    service="ec2",
    region="us-east-1",
    instance_type="c5.large",
    vcpus=2,
    effective_cpus=2.0,
    owns_machine=True,
)


def charged_seconds(agent: FakeAgent, *began_at: int, started: tuple[int, ...] = ()) -> float:
    """Return the seconds charged for an attempt of 10 s at each second, on one machine that was
    `started` then (0: unknown).
    """
    for number, second in enumerate(began_at):
        at = agent.started_at_ns + second * NS
        attempt = FakeAgent(
            agent.client, agent.token, run_id=agent.run_id, attempt=number, started_at_ns=at
        )
        known = started[number] if started else 0
        facts = replace(OWNED, instance_started_at_ns=known * NS)
        assert attempt.declare(node=facts).status_code == 200
        assert attempt.put(attempt.segment(0, last=True)).status_code == 200
    evaluate(str(agent.run_id))
    return sum(p.microseconds for p in CostPart.objects.filter(run_id=agent.run_id)) / 10**6


@pytest.mark.parametrize(
    ("began_at", "started", "seconds"),
    [
        ((0,), (), 60),
        ((0, 30), (), 60),
        ((0, 300), (), 70),
        ((0, 300), (1_000, 1_000), 70),
        ((0, 300), (1_000, 0), 70),
        ((0, 300), (0, 1_000), 70),
        ((0, 300), (1_000, 2_000), 120),
        ((0, 300, 320), (1_000, 2_000, 0), 130),
    ],
)
def test_attempts_on_an_owned_machine_pay_one_minimum_for_each_start(
    agent: FakeAgent, began_at: tuple[int, ...], started: tuple[int, ...], seconds: float
) -> None:
    assert charged_seconds(agent, *began_at, started=started) == seconds


@pytest.mark.parametrize(
    ("zone", "began_at", "january"),
    [
        ("Europe/Berlin", datetime(2026, 1, 31, 22, 59, 45, tzinfo=UTC), 15),
        ("Europe/Berlin", datetime(2026, 1, 31, 22, 59, 55, tzinfo=UTC), 5),
        ("Pacific/Auckland", datetime(2026, 1, 31, 10, 59, 30, tzinfo=UTC), 30),
        ("Asia/Kolkata", datetime(2026, 1, 31, 18, 29, 1, tzinfo=UTC), 59),
        # The minimum ends on the next UTC day, on which no session was.
        ("America/New_York", datetime(2026, 1, 31, 23, 59, 30, tzinfo=UTC), 60),
        ("UTC", datetime(2026, 1, 31, 23, 59, 20, tzinfo=UTC), 40),
    ],
)
def test_the_seconds_of_a_minimum_are_paid_in_the_month_in_which_they_fall(
    agent: FakeAgent, workspace: Workspace, zone: str, began_at: datetime, january: int
) -> None:
    """The run is 10 s long."""
    Workspace.objects.filter(pk=workspace.pk).update(time_zone=zone)
    agent.started_at_ns = int(began_at.timestamp()) * NS
    assert charged_seconds(agent, 0) == 60
    read = {"Authorization": f"Bearer {Token.make(workspace, 'script', [Token.READ])[1]}"}
    spent = []
    for month in ("2026-01", "2026-02"):
        answer = agent.client.get("/api/v1/spend", {"month": month}, headers=read).json()
        spent.append(Decimal(answer["total"]["usd"] or 0))
    whole = cost_usd(agent)
    assert sum(spent) == whole
    assert abs(spent[0] - whole * january / 60) < Decimal("1e-9")


def is_due(agent: FakeAgent) -> bool:
    analysis = Analysis.objects.get(run_id=agent.run_id)
    return analysis.wanted > analysis.done


@pytest.fixture
def neighbour(agent: FakeAgent, token: str) -> FakeAgent:
    return FakeAgent(agent.client, token, job="other", started_at_ns=agent.started_at_ns)


@pytest.fixture
def overpaid(agent: FakeAgent, neighbour: FakeAgent) -> Decimal:
    """Return the cost of a run alone, counted before its neighbour had arrived, and written
    afterwards.
    """
    send(agent, 6)
    held = queue.claim(agent.run_id)
    assert held is not None
    outcome = evaluation.evaluate(held)
    send(neighbour, 3)
    assert queue.finish_analysis(held, partial(outcome_rows.save, outcome), outcome.is_final)
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
    assert queue.finish_analysis(held, partial(outcome_rows.save, outcome), outcome.is_final)
    alone = cost_usd(agent)
    assert is_due(agent)
    evaluate(str(agent.run_id))
    assert abs(cost_usd(agent) + cost_usd(neighbour) - alone) <= Decimal("1e-8")


def test_a_crowd_on_a_machine_is_not_counted_while_others_wait_for_the_database(
    agent: FakeAgent, token: str
) -> None:
    """Whoever writes holds SQLite's lock, and any token can make a crowd."""
    read = []
    for size in (3, 12):
        machine = f"crowded-{size}"
        crowd = [
            FakeAgent(agent.client, token, machine_id=machine, started_at_ns=agent.started_at_ns)
            for _ in range(size)
        ]
        for each in crowd:
            send(each, 1)
        held = queue.claim(crowd[0].run_id)
        assert held is not None
        outcome = evaluation.evaluate(held)
        with CaptureQueriesContext(connection) as captured:
            assert queue.finish_analysis(
                held, partial(outcome_rows.save, outcome), outcome.is_final
            )
        assert all(map(is_due, crowd[1:]))
        read.append(sum("runs_session" in query["sql"] for query in captured))
    assert read[0] == read[1]


def _miscount(agent: FakeAgent) -> None:
    """Double the cost, as if it had been counted without its neighbour."""
    part = CostPart.objects.filter(run_id=agent.run_id).get()
    CostPart.objects.filter(pk=part.pk).update(usd=2 * part.usd)
    Run.objects.filter(pk=agent.run_id).update(cost_usd=2 * part.usd)


@pytest.fixture
def counted(agent: FakeAgent, neighbour: FakeAgent) -> Decimal:
    """Return the cost of a run beside another, both counted."""
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


def test_the_command_finds_a_cost_that_is_split_at_another_second(
    agent: FakeAgent, counted: Decimal
) -> None:
    part = CostPart.objects.get(run_id=agent.run_id)
    part.charges["charges"][0][0] -= 1
    part.save()
    said = StringIO()
    with pytest.raises(CommandError, match="1 of 2 runs"):
        call_command("recount", "--check", stdout=said)
    assert f"${counted}, a fresh count splits it by time differently" in said.getvalue()

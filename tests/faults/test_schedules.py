"""A sample of `python -m bench.faults`, and proof that its audit sees what is wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults import audit, flushed
from tests.faults.campaign import Campaign
from tests.faults.house import House, house
from tests.faults.kinds import kinds
from tests.faults.postgres import programs
from tests.faults.schedule import drawn

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]
SAMPLE = ("kill redis", "stop worker")
"""The sampled faults, without those that leave work leased for a minute: a killed worker is in
`test_mail`."""


@pytest.fixture(scope="module")
def started() -> Iterator[House]:
    with house() as made:
        yield made


@pytest.fixture(scope="module")
def campaign(started) -> Campaign:
    made = Campaign(started, only=SAMPLE)
    made.run([0, 1])
    made.settle()
    return made


def test_nothing_is_lost_or_doubled_when_parts_fail(campaign):
    figures = campaign.figures
    assert figures.problems == []
    assert (figures.lost, figures.doubled, figures.wrong_costs) == (0, 0, 0)
    assert figures.samples > 0
    assert figures.costs == sum(len(schedule.run_ids) for schedule in campaign.schedules)
    assert set(SAMPLE) <= set(campaign.faults)


def test_a_seed_gives_the_same_schedule_again(campaign):
    known = kinds(campaign.house)
    first, again = (drawn(17, campaign.house, known, campaign.told) for _ in range(2))
    assert str(first) == str(again)
    assert [plan.sends for plan in first.plans] == [plan.sends for plan in again.plans]


def test_each_kind_of_fault_has_its_turn(campaign):
    known = kinds(campaign.house)
    seeds = range(100, 100 + len(known))
    first = {drawn(seed, campaign.house, known, campaign.told).faults[0].kind for seed in seeds}
    assert first == set(known)


def test_the_audit_sees_lost_samples(campaign):
    schedule = campaign.schedules[0]
    run_id = schedule.agents[0].run_id
    folder = campaign.house.data_dir / "objects" / "runs" / str(run_id)
    # When its segments are merged depends on the time: both kinds of files hold samples.
    with _without([file for file in folder.rglob("*") if file.is_file()]):
        found = audit.of_samples(campaign.house, schedule)
    sent = [agent.ticks for agent in schedule.agents if agent.run_id == run_id]
    assert found.lost == sum(map(len, sent)) > 0
    assert "lost samples [0, 1, 2" in found.problems[0]


def test_the_audit_sees_a_sample_that_no_agent_sent(campaign):
    schedule = campaign.schedules[0]
    forgotten = schedule.agents[0].acknowledged.pop()
    try:
        found = audit.of_samples(campaign.house, schedule)
    finally:
        schedule.agents[0].acknowledged.add(forgotten)
    assert found.doubled == 20


def test_the_audit_sees_what_a_power_loss_took(campaign):
    campaign.house.agents = [campaign.schedules[0].agents[0]]
    assert flushed.missing(campaign.house) == []
    (agent,) = campaign.house.agents
    agent.acknowledged.add(99)
    try:
        found = flushed.missing(campaign.house)
    finally:
        agent.acknowledged.remove(99)
    assert found == [f"segment 99 of {agent.session_id} has no row"]


def test_the_audit_sees_a_nano_dollar(campaign):
    _change(campaign.house, "UPDATE runs_run SET cost_usd = cost_usd + 1")
    try:
        found = audit.of_costs(campaign.house, campaign.schedules)
    finally:
        _change(campaign.house, "UPDATE runs_run SET cost_usd = cost_usd - 1")
    assert found.wrong_costs == found.costs > 0


def test_the_audit_sees_a_mail_that_is_missing_or_sent_twice(campaign):
    due = [d for each in campaign.schedules for d in audit.due_mails(campaign.house, each)]
    deliveries = campaign.house.mailbox.deliveries
    assert len(due) == len({delivery.message_id for delivery in deliveries}) > 0
    kept = list(deliveries)
    try:
        deliveries.clear()
        assert audit.of_mails(campaign.house, campaign.schedules).mails_lost == len(due)
        failures, campaign.house.failures = campaign.house.failures, []
        deliveries += [kept[0], kept[0]]
        assert audit.of_mails(campaign.house, campaign.schedules).mails_doubled == 1
        campaign.house.failures = failures
    finally:
        deliveries[:] = kept


@contextmanager
def _without(files: list[Path]) -> Iterator[None]:
    bodies = {file: file.read_bytes() for file in files}
    for file in files:
        file.unlink()
    try:
        yield
    finally:
        for file, body in bodies.items():
            file.write_bytes(body)


def _change(made: House, sql: str) -> None:
    with sqlite3.connect(made.data_dir / "trimtab.sqlite3", timeout=20) as connection:
        connection.execute(sql)
    connection.close()


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("database", "objects"), [("sqlite", "folder"), ("sqlite", "s3"), ("postgres", "s3")]
)
def test_nothing_is_lost_or_doubled_whatever_fails(database, objects):
    if database == "postgres" and programs() is None:
        pytest.skip("needs PostgreSQL's programs")
    with house(database, objects) as made:
        campaign = Campaign(made)
        campaign.run(range(30))
        campaign.settle()
    assert campaign.figures.problems == []

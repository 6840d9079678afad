"""The cost of failures, by cause: through the wire, on pages, as CSV and in the API."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from advisor.money import display_usd
from advisor.pricing.price import OWN_RATE
from advisor.sizing.demand import Demand
from rules.ledger import OF_LIVES
from tests.html import read_page
from tests.service.machines import BEGAN_NS, MINUTE, Machine, analyse_what_is_due
from tests.web import factories
from tests.web.test_query_counts import MOST_QUERIES
from webapp.accounts.models import Token
from webapp.advice.selectors.interruptions import rate_of
from webapp.analysis.models import LedgerEntry, Life
from webapp.analysis.renewal.repricing import reprice_run
from webapp.prices.models import Price
from webapp.runs import progress
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db(transaction=True)
MONTH = "2026-05"
"""The month in which `machines.BEGAN_NS` lies."""


@pytest.fixture
def failures(client: Client, workspace: Any) -> Any:
    """Return a function that asks the API for the month."""
    _, plain = Token.make(workspace, "all", [Token.READ])

    def ask(**asked: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {plain}"}
        answer = client.get("/api/v1/failures", {"month": MONTH, **asked}, headers=headers)
        assert answer.status_code == 200, answer.content
        document: dict[str, Any] = answer.json()
        assert_sums(document)
        return document

    return ask


def assert_all_was_spent(failure: dict[str, Any], run: Run) -> None:
    """Check that nothing came after it, so all that the run cost is counted."""
    assert (failure["is_continued"], failure["lost_seconds"]) == (False, 0)
    assert Decimal(failure["usd"]) == Decimal(failure["not_continued_usd"]) == run.cost_usd
    assert run.cost_usd


def assert_sums(document: dict[str, Any]) -> None:
    """Check that sums are exact, and never more than the labels of the ledger and the runs that end
    so.
    """
    for lines in (document["by_cause"], document["by_job"], document["failures"]):
        usd = [Decimal(line["usd"]) for line in lines if line["usd"] is not None]
        assert sum(usd) == Decimal(document["total"]["usd"] or 0)
    rows = LedgerEntry.objects.filter(label__in=OF_LIVES, usd__isnull=False)
    labels = sum(row.usd or 0 for row in rows)
    rest = Decimal(document["total"]["not_continued_usd"] or 0)
    assert Decimal(document["total"]["usd"] or 0) <= labels + rest
    runs = Run.objects.filter(cost_usd__isnull=False)
    assert Decimal(document["total"]["usd"] or 0) <= sum(run.cost_usd or 0 for run in runs)


def continued(machine: Any, *endings: dict[str, Any], **more: Any) -> list[Machine]:
    """Return attempts of one run: each works for 80 min, the next one starts 20 min later and loads
    the checkpoint of 40 min before.
    """
    nodes: list[Machine] = []
    for number, ending in enumerate((*endings, {})):
        begins = number * 100 * MINUTE
        node = machine(
            starts=begins, attempt=number, machine_id=f"machine-{number}", ending=ending, **more
        )
        node.run_id = nodes[0].run_id if nodes else node.run_id
        if number:
            node.tells(begins + 5 * MINUTE, "restore", seconds=5 * MINUTE, step=240 * number)
        else:
            node.tells(10, "global_step", step=1)
        node.works(begins + (5 * MINUTE if number else 0), begins + 80 * MINUTE)
        nodes.append(node)
    return nodes


def upload(nodes: list[Machine], *states: str) -> Run:
    for node, state in zip(nodes, states, strict=True):
        run = node.ends(node.starts + 80 * MINUTE, state)
    return run


def test_each_failure_costs_its_lost_work_and_the_next_start(machine: Any, failures: Any) -> None:
    nodes = continued(machine, {"exit_code": 1}, {"exit_code": 124})
    run = upload(nodes, "failed", "failed", "finished")
    document = failures()
    newest, oldest = document["failures"]
    assert [oldest["cause"], newest["cause"]] == ["exit_code", "timeout"]
    assert oldest["lost_seconds"] == pytest.approx(40 * MINUTE, abs=10)
    assert newest["lost_seconds"] == pytest.approx(35 * MINUTE, abs=10)
    assert oldest["start_seconds"] == pytest.approx(5 * MINUTE, abs=10)
    per_second = Decimal("0.526") / 3600
    for each in (oldest, newest):
        seconds = Decimal(each["lost_seconds"]) + Decimal(each["start_seconds"])
        assert Decimal(each["usd"]) == pytest.approx(seconds * per_second, rel=Decimal("0.001"))
        assert each["lost_is_known"]
        assert each["is_continued"]
    lives = Life.objects.filter(run=run)
    for label, usd in (("lost", "lost_usd"), ("restore", "start_usd")):
        entries = LedgerEntry.objects.filter(run=run, label=label)
        labels = sum(row.usd or 0 for row in entries)
        assert labels == sum(getattr(life, usd) for life in lives), "to the nano-dollar"


@pytest.mark.parametrize("is_late", [False, True])
def test_the_next_run_of_the_training_is_what_followed(
    machine: Any, failures: Any, is_late: bool, client: Client, workspace: Any
) -> None:
    """The runs may arrive in any order; split off, the next one no longer followed."""
    first, second = continued(machine, {"exit_code": 1}, declared={"training": "llm"})
    second.run_id, second.attempt = machine().run_id, 0
    order = (second, first) if is_late else (first, second)
    for node in order:
        node.ends(node.starts + 80 * MINUTE, "finished" if node is second else "failed")
        if node is first and not is_late:
            [alone] = failures()["failures"]
            assert_all_was_spent(alone, Run.objects.get(pk=first.run_id))
    analyse_what_is_due()
    [failure] = failures()["failures"]
    assert failure["lost_seconds"] == pytest.approx(40 * MINUTE, abs=10)
    assert failure["start_seconds"] == pytest.approx(5 * MINUTE, abs=10)
    client.force_login(factories.member(workspace))
    client.post(f"/runs/{second.run_id}/training/split/")
    analyse_what_is_due()
    [failure] = failures()["failures"]
    assert_all_was_spent(failure, Run.objects.get(pk=first.run_id))
    client.post(f"/runs/{first.run_id}/delete/")
    assert failures()["failures"] == []


def test_a_spot_machine_that_goes_silent_was_reclaimed(machine: Any, failures: Any) -> None:
    upload(continued(machine, {}, purchase_option="spot"), "", "finished")
    assert [each["cause"] for each in failures()["failures"]] == ["spot"]


def test_a_spot_machine_that_is_stopped_and_replaced_was_reclaimed(
    machine: Any, failures: Any
) -> None:
    upload(continued(machine, {}, purchase_option="spot"), "stopped", "stopped")
    assert [each["cause"] for each in failures()["failures"]] == ["spot"], "not the last one"


def test_a_machine_that_goes_silent_for_good(machine: Any, failures: Any, settings: Any) -> None:
    """Not while the run may still go on."""
    [node] = continued(machine)
    run = node.ends(80 * MINUTE, "")
    assert failures()["failures"] == []
    settings.LOST_AFTER_SECONDS = 0
    progress.mark_lost_runs(run.last_received_at.replace(year=2030))
    [failure] = failures()["failures"]
    assert failure["cause"] == "silent"
    assert_all_was_spent(failure, Run.objects.get(pk=run.pk))


def test_a_run_that_fails_for_good_costs_all_that_it_cost(
    machine: Any, failures: Any, client: Client, workspace: Any
) -> None:
    """The failures are counted together: the restart and the lost work count once."""
    run = upload(
        continued(machine, {"exit_code": 1}, {"exit_code": 1}), "failed", "failed", "failed"
    )
    document = failures()
    newest, *earlier = document["failures"]
    assert Decimal(document["total"]["usd"]) == run.cost_usd
    assert Decimal(newest["not_continued_usd"]) == Decimal(newest["usd"])
    assert [Decimal(each["not_continued_usd"]) for each in earlier] == [0, 0]
    assert all(Decimal(each["usd"]) > 0 for each in earlier)
    client.force_login(factories.member(workspace))
    page = read_page(client.get(f"/spend/failures/?month={MONTH}"))
    assert page.count(display_usd(Decimal(newest["usd"]))) == 3, "sums by cause and job, and total"
    [line, *_] = csv.DictReader(
        read_page(client.get(f"/spend/failures.csv?month={MONTH}")).splitlines()
    )
    assert line["not_continued_usd"] == newest["not_continued_usd"]


def test_the_start_after_a_stop_by_hand_is_a_part_of_the_rest(machine: Any, failures: Any) -> None:
    """Such a start belongs to no failure, so only the run's cost has it."""
    run = upload(continued(machine, {}, {"exit_code": 1}), "stopped", "failed", "failed")
    [last, first] = failures()["failures"]
    assert Decimal(first["start_usd"]) > 0
    stopped, *_ = Life.objects.filter(run=run)
    assert stopped.ending == "stopped"
    assert Decimal(last["usd"]) + Decimal(first["usd"]) == run.cost_usd


def test_a_run_that_is_continued_by_one_too_large_to_judge_is_continued(
    machine: Any, failures: Any
) -> None:
    """Nothing is known of how that one began, so the failure costs its lost work only."""
    first, second = continued(machine, {"exit_code": 1}, declared={"training": "llm"})
    second.run_id, second.attempt = machine().run_id, 0
    first.ends(first.starts + 80 * MINUTE, "failed")
    second.ends(second.starts + 80 * MINUTE, "finished")
    analyse_what_is_due()
    Life.objects.filter(run=second.run_id).delete()
    [failure] = failures()["failures"]
    assert Decimal(failure["not_continued_usd"]) == 0
    assert failure["usd"] == failure["lost_usd"]


def test_unknown_steps_and_missing_prices_are_not_zero(machine: Any, failures: Any) -> None:
    first, second = continued(machine, {"exit_code": 1}, instance_type="made.up")
    second.events = [(105 * MINUTE, "restore", {"rank": 0, "seconds": 300.0, "step": None})]
    upload([first, second], "failed", "finished")
    document = failures()
    [failure] = document["failures"]
    assert not failure["lost_is_known"]
    assert (failure["usd"], failure["start_usd"]) == (None, None)
    total = document["total"]
    assert (total["usd"], total["unpriced_failures"], total["unknown_failures"]) == (None, 1, 1)


def test_pages_and_csv_show_the_same(
    machine: Any, failures: Any, client: Client, workspace: Any
) -> None:
    nodes = continued(machine, {"exit_code": 1}, {"exit_code": 124})
    run = upload(nodes, "failed", "failed", "finished")
    document = failures()
    client.force_login(factories.member(workspace))

    def page(address: str) -> str:
        with CaptureQueriesContext(connection) as asked:
            text: str = read_page(client.get(address))
        assert len(asked) <= MOST_QUERIES
        return text

    shown = f"${Decimal(document['total']['usd']):.4f}"
    for address in (f"/spend/failures/?month={MONTH}", f"/runs/{run.pk}/training/"):
        text = page(address)
        for word in ("Timeout", "Error of the program", shown):
            assert word in text, (address, word)
    lines = list(csv.DictReader(page(f"/spend/failures.csv?month={MONTH}").splitlines()))
    assert [line["usd"] for line in lines] == [each["usd"] for each in document["failures"]]
    assert [line["cause"] for line in lines] == ["timeout", "exit_code"]
    assert "No failures in April" in page("/spend/failures/?month=2026-04")


def test_the_failures_of_one_job(
    machine: Any, failures: Any, client: Client, workspace: Any
) -> None:
    run = upload(continued(machine, {"exit_code": 1}), "failed", "finished")
    client.force_login(factories.member(workspace))
    link = f"/spend/failures/?job={run.job.uuid}"
    assert link in read_page(client.get(f"/jobs/{run.job.uuid}/"))
    other = factories.job(workspace, "other")
    of_all = read_page(client.get(f"/spend/failures/?month={MONTH}"))
    assert f'href="/spend/failures/?month={MONTH}&amp;job={run.job.uuid}"' in of_all
    page = read_page(client.get(f"{link}&month={MONTH}"))
    assert f"/runs/{run.pk}/" in page
    assert "Error of the program" in page
    page = read_page(client.get(f"/spend/failures/?job={other.uuid}&month={MONTH}"))
    assert "No failures of other" in page
    assert [len(failures(job=job.uuid)["failures"]) for job in (run.job, other)] == [1, 0]
    theirs = factories.job(factories.workspace("Theirs"), "theirs")
    for uuid in (theirs.uuid, "nonsense"):
        assert client.get(f"/spend/failures/?job={uuid}").status_code == 404


def test_without_samples_the_failures_are_priced_again(
    machine: Any, failures: Any, workspace: Any
) -> None:
    run = upload(continued(machine, {"exit_code": 1}), "failed", "finished")
    before = Decimal(failures()["total"]["usd"])
    Run.objects.filter(pk=run.pk).update(raw_deleted_at=timezone.now())
    began = datetime.fromtimestamp(BEGAN_NS / 1e9, UTC)
    Price.objects.create(
        workspace=workspace,
        provider="aws",
        service="ec2",
        region="us-east-1",
        instance_type="g4dn.xlarge",
        usd_per_hour=2 * Decimal("0.526"),
        valid_from=began - timedelta(days=1),
        source="ours",
        precedence=OWN_RATE,
    )
    with transaction.atomic():
        reprice_run(Run.objects.select_for_update().get(pk=run.pk))
    after = Decimal(failures()["total"]["usd"])
    assert after == pytest.approx(2 * before, rel=Decimal("1e-6"))


def test_interruptions_of_the_workspaces_own_machines_tell_their_rate(
    machine: Any, workspace: Any
) -> None:
    """Three of spot machines in 4 times 80 min; failures of programs are none."""
    spot = {"purchase_option": "spot"}
    upload(continued(machine, {}, {}, {}, **spot), "", "stopped", "", "finished")
    upload(continued(machine, {"exit_code": 1}, {}), "failed", "", "finished")
    now = datetime.fromtimestamp(BEGAN_NS / 1e9, UTC) + timedelta(days=1)
    demand = Demand(1.0, 1.0, 1, 3600.0, "g4dn.xlarge", "us-east-1", purchase_option="spot")
    rate = rate_of(workspace, demand, now)
    assert rate is not None
    assert (rate.interruptions, rate.seen_hours) == (3, pytest.approx(4 * 80 / 60))
    assert rate.hours == pytest.approx((24 + 4 * 80 / 60) / 4)
    assert "g4dn.xlarge in us-east-1" in rate.words
    elsewhere = replace(demand, region="eu-west-1")
    assert "at aws" in rate_of(workspace, elsewhere, now).words
    assert rate_of(workspace, replace(demand, purchase_option="on_demand"), now) is None
    assert rate_of(workspace, demand, now + timedelta(days=91)) is None
    assert rate_of(factories.workspace("Theirs"), demand, now) is None


def test_another_workspace_sees_nothing(machine: Any, client: Client) -> None:
    upload(continued(machine, {"exit_code": 1}), "failed", "finished")
    client.force_login(factories.member(factories.workspace("Theirs")))
    page = read_page(client.get(f"/spend/failures/?month={MONTH}"))
    assert "No failures" in page

"""Trainings through the wire: what their attempts lost, in the ledger, the API and on the page."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from trimtab.cli import main

from tests.html import read_page
from tests.service.machines import MINUTE, analyse_what_is_due, two_runs
from tests.web import factories
from tests.web.test_query_counts import MOST_QUERIES
from webapp.accounts.models import Token
from webapp.analysis.models import Analysis, LedgerEntry, NumberedSteps
from webapp.analysis.trainings import numbered_steps
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


def test_two_hundred_minutes_of_a_resilient_training(machine: Any, told: Any) -> None:
    """100 min effective, 10 load, 40 lost, 15 restart, 10 save, 25 slowdown."""
    node = machine()
    node.tells(0, "rank", local_rank=0, world_size=1, pid=7)
    node.tells(5 * MINUTE, "restore", seconds=5 * MINUTE, bytes=None, step=0)
    node.works(5 * MINUTE, 45 * MINUTE)
    node.tells(50 * MINUTE, "checkpoint", seconds=5 * MINUTE, bytes=10**9)
    node.works(50 * MINUTE, 90 * MINUTE)
    node.tells(105 * MINUTE, "rank", local_rank=0, world_size=1, pid=8, restarts=1)
    node.tells(110 * MINUTE, "restore", seconds=5 * MINUTE, bytes=None, step=240)
    node.works(110 * MINUTE, 140 * MINUTE)
    node.tells(145 * MINUTE, "checkpoint", seconds=5 * MINUTE, bytes=10**9)
    node.works(145 * MINUTE, 200 * MINUTE, each=55 * MINUTE / 180)
    run = node.ends(200 * MINUTE)
    minutes, document = told(run.pk)
    slow = document["slowdown_seconds"] / MINUTE
    assert {label: round(value) for label, value in minutes.items() if round(value)} == {
        "effective": 100 + 25,
        "restore": 10,
        "lost": 40,
        "restart": 15,
        "checkpoint": 10,
    }
    assert round(slow) == 25
    assert round(minutes["effective"] - slow) == 100
    assert document["goodput"] == pytest.approx(125 / 200, abs=0.001)
    assert (document["steps"], document["lost_steps"]) == (600, 240)


def test_waiting_for_data_nine_seconds_of_ten(machine: Any, told: Any) -> None:
    node = machine()
    node.works(MINUTE, 100 * MINUTE, wait=9)
    _, document = told(node.ends(100 * MINUTE).pk)
    assert document["effective_share"] == pytest.approx(0.1, abs=0.005)
    assert document["goodput"] == pytest.approx(0.99, abs=0.002)


def test_a_thousand_seconds_of_hang_after_a_hundred_of_work(machine: Any, told: Any) -> None:
    node = machine()
    node.works(0, 100)
    _, document = told(node.ends(1100, "failed").pk)
    assert document["effective_share"] == pytest.approx(0.09, abs=0.005)
    assert document["is_provisional"], "it may be continued"


def test_a_second_half_twice_as_slow(machine: Any, told: Any) -> None:
    node = machine()
    node.works(0, 100 * MINUTE)
    node.works(100 * MINUTE, 200 * MINUTE, each=20)
    _, document = told(node.ends(200 * MINUTE).pk)
    assert document["slowdown_seconds"] / MINUTE == pytest.approx(50, abs=1)


@pytest.mark.parametrize(
    ("declared", "is_late"),
    [({"training": "llm-7"}, False), ({"requeue": "kubernetes/ml/llm-7"}, True)],
)
def test_a_later_run_turns_effective_time_into_lost_time(
    machine: Any, told: Any, declared: dict[str, str], is_late: bool
) -> None:
    """The runs may arrive in any order."""
    first, second = two_runs(machine, **declared)
    if is_late:
        late = second.ends(155 * MINUTE)
        early = first.ends(80 * MINUTE, "failed")
        numbered_steps.recount(late.pk)
    else:
        early = first.ends(80 * MINUTE, "failed")
        assert "lost" not in told(early.pk)[0]
        late = second.ends(155 * MINUTE)
    analyse_what_is_due()
    minutes, document = told(early.pk)
    assert minutes["lost"] == pytest.approx(40, abs=0.1)
    assert told(late.pk) == (minutes, document)
    assert document["waiting_seconds"] == 20 * MINUTE
    assert [each["waited_seconds"] for each in document["attempts"]] == [None, 20 * MINUTE]
    assert (document["steps"], document["lost_steps"]) == (540, 240)
    assert not document["is_provisional"]
    runs_usd = sum(run.cost_usd for run in Run.objects.all())
    assert Decimal(document["cost_usd"]) == runs_usd
    assert LedgerEntry.objects.filter(run=early, label="lost").exists()


def test_attempts_of_one_run_and_runs_of_one_training_are_the_same(machine: Any, told: Any) -> None:
    first, second = two_runs(machine, training="apart")
    first.ends(80 * MINUTE, "failed")
    second.ends(155 * MINUTE)
    analyse_what_is_due()
    apart = told("apart")
    first, second = two_runs(machine)
    second.run_id, second.attempt = first.run_id, 1
    first.machine_id, second.machine_id = "machine-3", "machine-4"  # else the cost is shared
    first.ends(80 * MINUTE, "failed")
    together = told(second.ends(155 * MINUTE).pk)
    assert apart[0] == together[0]
    (loss,) = apart[1]["metrics"]
    assert [(each["value"], each["seconds"] / MINUTE) for each in loss["points"]] == [
        (0.5, 40),
        (0.4, 130),
        (0.2, 150),
    ], "0.3 was lost"
    until = [float(each["usd"]) for each in loss["points"]]
    assert until == pytest.approx([held / 60 * 0.526 for held in (40, 110, 130)])
    same = (
        "metrics",
        "cost_usd",
        "goodput",
        "effective_share",
        "steps",
        "lost_steps",
        "waiting_seconds",
    )
    assert [apart[1][name] for name in same] == [together[1][name] for name in same]


def test_a_training_of_one_attempt_has_the_ledger_of_its_run(machine: Any, told: Any) -> None:
    node = machine()
    node.works(MINUTE, 10 * MINUTE, wait=3)
    run = node.ends(11 * MINUTE)
    rows = LedgerEntry.objects.filter(run=run)
    document = told(run.pk)[1]
    assert {line["label"]: Decimal(line["usd"]) for line in document["ledger"]} == {
        row.label: row.usd for row in rows
    }


def test_a_worker_that_was_killed_before_it_looked_at_the_training(machine: Any, told: Any) -> None:
    """The sweep finds runs whose lost steps aren't what a fresh count gives."""
    first, second = two_runs(machine, training="swept")
    early = first.ends(80 * MINUTE, "failed")
    second.ends(155 * MINUTE)
    Analysis.objects.filter(run=early).update(done=1, wanted=1)
    assert told("swept")[1]["is_provisional"]
    assert numbered_steps.queue_outdated(early.last_received_at + timedelta(hours=1)) == 1
    analyse_what_is_due()
    minutes, document = told("swept")
    assert minutes["lost"] == pytest.approx(40, abs=0.1)
    assert not document["is_provisional"]
    assert numbered_steps.queue_outdated(early.last_received_at + timedelta(hours=1)) == 0


def test_a_run_that_finished_is_not_continued_by_its_scheduler(machine: Any, told: Any) -> None:
    first, second = two_runs(machine, requeue="kubernetes/ml/nightly")
    early = first.ends(80 * MINUTE)
    second.ends(155 * MINUTE)
    assert len(told(early.pk)[1]["attempts"]) == 1


def test_a_number_that_nobody_knows_is_no_lost_work(machine: Any, told: Any) -> None:
    first, second = two_runs(machine, training="unknown")
    second.events = [(105 * MINUTE, "restore", {"rank": 0, "seconds": 300.0, "step": None})]
    first.ends(80 * MINUTE, "failed")
    second.ends(155 * MINUTE)
    minutes, document = told("unknown")
    assert "lost" not in minutes
    assert document["lost_is_unknown"]


def test_the_page_shows_attempts_figures_and_ledger(
    machine: Any, client: Client, workspace: Any
) -> None:
    first, second = two_runs(machine, training="llm <7>")
    first.ends(80 * MINUTE, "failed")
    run = second.ends(155 * MINUTE)
    analyse_what_is_due()
    client.force_login(factories.member(workspace))
    with CaptureQueriesContext(connection) as asked:
        page = read_page(client.get(f"/runs/{run.pk}/training/"))
    assert len(asked) <= MOST_QUERIES
    for text in ("llm &lt;7&gt;", "Goodput", "Lost work", "20 m 0 s", "240"):
        assert text in page, text
    assert f"/runs/{run.pk}/training/" in read_page(client.get(f"/runs/{run.pk}/"))

    def said(value: str) -> str:
        asked = client.get(f"/runs/{run.pk}/training/", {"metric": "loss", "value": value})
        return re.sub("<[^>]*>", "", read_page(asked).rpartition("Show</button>")[2][:200])

    assert "$0.9643 after 2 h 10 m" in said("0.45")
    assert "not reached" in said("0.1")
    assert "reached" not in said("nan")


def test_a_command_tells_what_a_training_cost_until_a_value(
    machine: Any, workspace: Any, live_server: Any, monkeypatch: Any, capsys: Any
) -> None:
    first, second = two_runs(machine, training="llm-7")
    first.ends(80 * MINUTE, "failed")
    second.ends(155 * MINUTE)
    analyse_what_is_due()
    monkeypatch.setenv("TRIMTAB_URL", live_server.url)
    monkeypatch.setenv("TRIMTAB_TOKEN", Token.make(workspace, "script", [Token.READ])[1])

    def said(*words: str) -> str:
        assert main(["cost", "llm-7", *words]) == 0
        return str(capsys.readouterr().out)

    assert re.search(r"loss +0\.2 +150\.0 min +\$1\.14\n", said())
    assert "loss 0.45 reached after 130.0 min, $0.9643" in said("--reach", "loss=0.45")
    assert "loss 0.1 was not reached" in said("--reach", "loss=0.1")
    failure = re.search(r"\nError of the program +#1 +\S+ \S+ +39\.9 min +\$(\S+)\n", said())
    parts = (re.search(rf"\n{label} .*\$(\S+)\n", said()) for label in ("lost", "restore"))
    assert failure is not None
    summed = sum(Decimal(part[1]) for part in parts if part)
    assert abs(Decimal(failure[1]) - summed) <= Decimal("0.0001"), "each is rounded by itself"
    assert "| Error of the program | #1 |" in said("--markdown")
    assert "no metric val/loss is known" in said("--reach", "val/loss=1")


def test_steps_that_nobody_counted_are_not_zero(
    machine: Any, told: Any, client: Client, workspace: Any
) -> None:
    """An earlier version analysed such a run."""
    one = machine()
    one.works(0, 20 * MINUTE)
    run = one.ends(20 * MINUTE)
    assert told(run.pk)[1]["steps"] == 120
    NumberedSteps.objects.all().delete()

    document = told(run.pk)[1]
    assert (document["steps"], document["lost_steps"]) == (None, None)
    client.force_login(factories.member(workspace))
    page = read_page(client.get(f"/runs/{run.pk}/training/"))
    assert "no steps are known of some run" in page


def test_a_training_of_another_workspace_is_unknown(machine: Any, client: Client) -> None:
    first, _ = two_runs(machine, training="secret")
    run = first.ends(80 * MINUTE)
    theirs = factories.workspace("Theirs")
    _, plain = Token.make(theirs, "all", [Token.READ])
    for reference in ("secret", str(run.pk), str(run.training.uuid)):
        headers = {"Authorization": f"Bearer {plain}"}
        answer = client.get("/api/v1/training", {"training": reference}, headers=headers)
        assert answer.status_code == 404
    client.force_login(factories.member(theirs))
    assert client.get(f"/runs/{run.pk}/training/").status_code == 404


def test_what_a_deleted_run_had_taken_back_counts_again_until_it_is_restored(
    machine: Any, client: Client, workspace: Any
) -> None:
    first, second = two_runs(machine, training="llm-7")
    run = first.ends(80 * MINUTE, "failed")
    second.ends(155 * MINUTE)
    analyse_what_is_due()
    client.force_login(factories.member(workspace))

    def steps_of_the_first() -> float:
        analyse_what_is_due()
        run.refresh_from_db()
        return float(run.work["steps"])

    assert steps_of_the_first() == 240
    client.post(f"/runs/{second.run_id}/delete/")
    assert steps_of_the_first() == 480
    client.post(f"/runs/{second.run_id}/restore/")
    assert steps_of_the_first() == 240


def test_runs_are_joined_and_split_by_hand(
    machine: Any, told: Any, client: Client, workspace: Any
) -> None:
    """Each time the lost work is counted again, and each can be undone."""
    first, second = two_runs(machine)
    early, late = first.ends(80 * MINUTE, "failed"), second.ends(155 * MINUTE)
    client.force_login(factories.member(workspace))

    def press(what: str, **fields: str) -> tuple[bool, int]:
        answer = client.post(f"/runs/{late.pk}/training/{what}/", fields, follow=True)
        assert answer.status_code == 200
        analyse_what_is_due()
        minutes, document = told(early.pk)
        return "lost" in minutes, len(document["attempts"])

    assert press("join", other="no such run") == (False, 1)
    assert press("join", other=str(late)) == (False, 1)
    assert press("join", other=str(early)) == (True, 2)
    training = str(Run.objects.get(pk=late.pk).training.uuid)
    assert press("split") == (False, 1)
    assert press("undo", training=training) == (True, 2)
    second.declared = {"training": "elsewhere"}
    second.declares()
    assert press("undo", training="") == (False, 1)
    history = [entry.action for entry in workspace.audit_entries.all()]
    assert history.count("run.training_changed") == 4


def test_two_nodes_of_which_one_is_replaced(machine: Any, told: Any) -> None:
    """Both did the lost steps, and both cost money."""
    nodes = [machine(machine_id=name) for name in ("a", "b")]
    for node in nodes:
        node.run_id = nodes[0].run_id
        node.works(0, 80 * MINUTE)
        node.tells(10, "global_step", step=1)
    again = [machine(machine_id=name, starts=100 * MINUTE, attempt=1) for name in ("a", "c")]
    for node in again:
        node.run_id = nodes[0].run_id
        node.tells(105 * MINUTE, "restore", seconds=5 * MINUTE, bytes=None, step=240)
        node.works(105 * MINUTE, 155 * MINUTE)
    for node in (*nodes, again[0]):
        node.ends(80 * MINUTE if node in nodes else 155 * MINUTE, "failed")
    run = again[1].ends(155 * MINUTE)
    minutes, document = told(run.pk)
    assert minutes["lost"] == pytest.approx(80, abs=0.2)
    assert (document["steps"], document["lost_steps"]) == (540, 240)
    assert [each["waited_seconds"] for each in document["attempts"]] == [None, 20 * MINUTE]

"""A run of which something is missing is never compared as if it were whole."""

from __future__ import annotations

import time
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from trimtab.cli import compare, completeness, main

from tests.web import factories
from webapp.accounts.models import Token
from webapp.analysis.models import Analysis
from webapp.runs.models import Job, Node, Run, Session


@pytest.fixture
def job(owner) -> Job:
    return factories.job(owner.workspace)


def ended_node(run: Run, **more: Any) -> Node:
    number = Node.objects.filter(attempt__run=run).count() + 1
    node = factories.node(run, number=number, hostname=f"trainer-{number}")
    times = {"started_at": run.began_at, "last_ms": 600_000, "ended_ms": 600_000}
    Session.objects.create(id=uuid4(), node=node, boot_id="b", **times | more)
    return node


def complete(job: Job, **more: Any) -> Run:
    run = factories.run(job, **more)
    ended_node(run)
    factories.analysis(run)
    return run


def document(a: Run, b: Run) -> dict[str, Any]:
    token = Token.make(a.workspace, "script", ["read"])[1]
    answer = Client().get(
        "/api/v1/compare", {"a": a.pk, "b": b.pk}, headers={"Authorization": f"Bearer {token}"}
    )
    found: dict[str, Any] = answer.json()
    return found


def is_running(run: Run) -> str:
    ended_node(run, ended_ms=None)
    Run.objects.filter(pk=run.pk).update(state=Run.RUNNING)
    return "trainer-2 hasn't reported its end"


def is_declared_only(run: Run) -> str:
    factories.node(run, number=2, hostname="trainer-2")
    return "trainer-2 was declared and has sent nothing"


def is_not_analysed(run: Run) -> str:
    Analysis.objects.filter(run=run).update(is_final=False)
    return "its analysis isn't final yet"


def is_to_be_analysed_again(run: Run) -> str:
    Analysis.objects.filter(run=run).update(wanted=2)
    return "its analysis isn't final yet"


def has_late_uploads(run: Run) -> str:
    Run.objects.filter(pk=run.pk).update(summary=factories.summary(missing_segments=2))
    return "2 uploads of it didn't arrive"


@pytest.mark.parametrize(
    "lacks",
    [is_running, is_declared_only, is_not_analysed, is_to_be_analysed_again, has_late_uploads],
)
def test_no_saving_is_claimed_of_a_partial_run_and_what_is_missing_is_said(owner, job, lacks):
    a, b = complete(job, cost="1"), complete(job, cost="0.5")
    because = lacks(b)
    answer = document(a, b)
    assert (answer["a"]["is_complete"], answer["b"]["is_complete"]) == (True, False)
    assert (answer["b"]["incomplete_because"], answer["b"]["may_complete"]) == ([because], True)
    assert (answer["cost_change_pct"], answer["saving_usd"]) == (None, None)
    assert answer["incomparable_because"][0].endswith(f": {because}")
    page = owner.page(reverse("dashboard:compare") + f"?a={a.pk}&b={b.pk}")
    assert because.replace("'", "&#x27;") in page
    assert ">partial</span>" in page
    assert " less than " not in page


def test_two_complete_runs_are_compared(job):
    answer = document(complete(job, cost="1"), complete(job, cost="0.5"))
    assert answer["incomparable_because"] == []
    assert answer["cost_change_pct"] == pytest.approx(-50)
    assert answer["saving_usd"] == "0.500000000"


def test_an_earlier_attempt_need_not_have_ended(job):
    b = complete(job)
    Session.objects.update(ended_ms=None)
    attempt = b.attempts.create(number=1)
    node = Node.objects.create(attempt=attempt, number=2, machine_id="i-2")
    times = {"last_ms": 600_000, "ended_ms": 600_000}
    Session.objects.create(id=uuid4(), node=node, boot_id="b", started_at=b.began_at, **times)
    assert document(complete(job), b)["b"]["is_complete"] is True


@pytest.fixture
def service(live_server, owner, monkeypatch) -> None:
    monkeypatch.setenv("TRIMTAB_URL", live_server.url)
    token = Token.make(owner.workspace, "script", [Token.READ])[1]
    monkeypatch.setenv("TRIMTAB_TOKEN", token)
    monkeypatch.setattr(completeness, "FIRST_PAUSE_SECONDS", 0.05)


def told(capsys, a: Run, b: Run, *options: str) -> tuple[int, str]:  # type: ignore[no-untyped-def]
    code = main(["compare", str(a.pk), str(b.pk), "--fail-if-cost-up", "5%", *options])
    return code, capsys.readouterr().err


def test_without_waiting_it_exits_with_3_and_names_run_and_node(service, job, capsys):
    a, b = complete(job), complete(job)
    is_running(b)
    code, errors = told(capsys, a, b)
    assert code == 3
    assert "run #2 is still running: trainer-2 hasn't reported its end." in errors
    assert "use --wait" in errors


def test_it_waits_until_the_run_is_complete(service, job, capsys, monkeypatch):
    a, b = complete(job, cost="1"), complete(job, cost="2")
    is_not_analysed(b)
    asked: list[str] = []
    fetch = compare.reports.document

    def ends_after_two(*arguments: Any, **query: str) -> Any:
        asked.append(query["b"])
        if len(asked) == 3:
            Analysis.objects.filter(run=b).update(is_final=True)
        return fetch(*arguments, **query)

    monkeypatch.setattr(compare.reports, "document", ends_after_two)
    code, errors = told(capsys, a, b, "--wait", "60")
    assert (code, len(asked)) == (1, 3)
    assert "100.00 % more" in errors


def test_waiting_ends_at_its_time_with_what_is_missing(service, job, capsys):
    a, b = complete(job), complete(job)
    is_running(b)
    code, errors = told(capsys, a, b, "--wait", "0.2")
    assert code == 3
    assert "not complete after 0.2 s: run #2 (running): trainer-2 hasn't" in errors


@pytest.mark.parametrize("is_given_up", [False, True])
def test_it_does_not_wait_for_what_will_not_come(service, job, capsys, is_given_up):
    a, b = complete(job), complete(job)
    if is_given_up:
        Analysis.objects.filter(run=b).update(
            is_final=False, given_up_at=timezone.now(), error="The run is too large."
        )
    else:
        is_running(b)
        heard = timezone.now() - timedelta(hours=2)
        Run.objects.filter(pk=b.pk).update(state=Run.LOST, last_received_at=heard)
    began = time.monotonic()
    code, errors = told(capsys, a, b, "--wait", "3600")
    assert time.monotonic() - began < 60
    assert code == 3
    assert "waiting doesn't help: run #2" in errors
    reason = "its analysis failed: The run is too large" if is_given_up else "sent nothing since"
    assert reason in errors


def test_a_wait_that_is_no_number_is_refused(capsys):
    for wait in ("soon", "-1", "nan"):
        with pytest.raises(SystemExit):
            main(["compare", "a", "b", f"--wait={wait}"])


def test_one_epoch_instead_of_ten_passes_and_other_data_is_named(service, job, capsys):
    summary = {n: factories.summary(phase_seconds={"initialise": 100.0, "train": 100.0 * n,
               "finalise": 0.0}) for n in (10, 1)}  # fmt: skip
    ten = complete(job, cost="1.1", seconds=1100, summary=summary[10],
                   work={"samples": 1e6, "epochs": 10.0})  # fmt: skip
    one = complete(job, cost="0.2", seconds=200, summary=summary[1],
                   work={"samples": 1e5, "epochs": 1.0})  # fmt: skip
    assert told(capsys, ten, one)[0] == 0
    Run.objects.filter(pk=one.pk).update(work={"samples": 2e5, "epochs": 1.0})
    code, errors = told(capsys, ten, one)
    assert code == 3
    assert "run #2 has twice the samples an epoch (200,000 instead of 100,000 in run #1)" in errors


def test_the_settings_of_the_job_and_the_noise_of_alike_runs_decide(job):
    a, b = (
        complete(job, cost="1", metrics={"m": 0.8}),
        complete(job, cost="0.5", metrics={"m": 0.3}),
    )
    assert document(a, b)["saving_usd"] is None
    assert "m moved from 0.8 to 0.3" in document(a, b)["sentence"]
    Job.objects.update(metrics={"m": {"direction": "lower"}})
    assert document(a, b)["saving_usd"] == "0.500000000"
    Job.objects.update(metrics={})
    began = a.began_at - timedelta(days=1)
    for value in (0.1, 0.9, 0.2, 0.8, 0.5):
        complete(job, metrics={"m": value}, started_at=began, parameters={"workers": 0, "seed": 1})
    assert Decimal(document(a, b)["saving_usd"]) == Decimal("0.5")

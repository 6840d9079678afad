"""Money on a run's page, its job's page and in the API, besides the cost."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from advisor.costing.projection import Projection
from tests.web import factories
from webapp.accounts.models import Token
from webapp.analysis.successive import verdicts
from webapp.runs.models import Job, Run

PHASES = {"initialise": "0.001400000", "train": "0.012700001", "finalise": "0.000099999"}


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def _section(page: str, name: str) -> str:
    match = re.search(rf'id="{name}".*?</(?:section|div></div)>', page, re.DOTALL)
    return _text(match[0]) if match else ""


def _page(person, run: Run) -> str:  # type: ignore[no-untyped-def]
    return person.page(reverse("dashboard:run", args=[run.pk]))


def _money(person, run: Run) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    token = Token.make(person.workspace, "script", [Token.READ])[1]
    headers = {"Authorization": f"Bearer {token}"}
    return Client().get(f"/api/v1/runs/{run.pk}", headers=headers).json()["money"]


@pytest.fixture
def job(owner) -> Job:
    return factories.job(owner.workspace)


def _run(job: Job, state: str = Run.FINISHED, cost: str = "0.0142", **summary: Any) -> Run:
    return factories.run(job, cost=cost, state=state, summary=factories.summary(**summary))


def test_the_phases_are_shown_with_what_each_cost(owner, job):
    run = _run(job, phase_usd={name: Decimal(usd) for name, usd in PHASES.items()})
    shown = _section(_page(owner, run), "money")
    assert "Train $0.0127 89 %" in shown
    money = _money(owner, run)["phases"]
    assert {phase["name"]: phase["usd"] for phase in money} == PHASES


def test_a_running_run_says_what_it_will_have_cost_and_an_ended_one_does_not(owner, job):
    projected = Projection(
        unit="epochs",
        done=9.5,
        planned=100.0,
        seconds_left=5400.0,
        usd=Decimal("0.15"),
    )
    run = _run(job, Run.RUNNING, projected=projected)
    shown = _section(_page(owner, run), "money")
    assert "$0.1500 projected in total" in shown
    assert "9.5 of 100 epochs done, 1 h 30 m left" in shown
    assert Decimal(_money(owner, run)["projected"]["usd"]) == Decimal("0.15")
    ended = _run(job, projected=projected)
    assert "projected in total" not in _page(owner, ended)
    assert _money(owner, ended)["projected"] is None


def test_it_gives_the_cost_of_each_unit_of_work_and_until_the_best_metric(owner, job):
    curve = {"val_loss": [[60.0, 0.9], [300.0, 0.25]]}
    run = factories.run(job, metric_progress=curve)
    shown = _section(_page(owner, run), "money")
    assert "Until the best val_loss, 0.25 $0.0071 after 5 m 0 s" in shown
    money = _money(owner, run)
    assert Decimal(money["until_best"][0]["usd"]) == Decimal("0.0071")
    samples = next(each for each in money["per_work"] if each["unit"] == "samples")
    assert Decimal(samples["usd"]) / samples["amount"] * 19_200 == pytest.approx(Decimal("0.0142"))


def test_your_rate_is_named_with_the_list_price_beside_it(owner, job):
    run = _run(job, basis="your rate", list_usd=Decimal("0.0284"))
    page = _text(_page(owner, run))
    assert "Your rate; $0.0284 at the list price" in page
    assert "List price" not in page
    assert _money(owner, run)["basis"] == "your rate"


def test_what_was_billed_stands_beside_what_was_counted(owner, job):
    run = _run(job)
    Run.objects.filter(pk=run.pk).update(billed_usd=Decimal("0.0150"))
    shown = _section(_page(owner, run), "money")
    assert "Billed $0.0150 +$0.0008 compared with the computed cost" in shown
    run.refresh_from_db()
    assert Decimal(_money(owner, run)["billed_difference_usd"]) == Decimal("0.0008")


def test_it_says_that_only_a_share_of_a_machine_was_paid(owner, job):
    note = "The run was allocated 1/2 of its machine and is charged for that share."
    run = _run(job, cost_notes=[note])
    assert note in _section(_page(owner, run), "money")
    assert _money(owner, run)["notes"] == [note]


def _history(job: Job, *times: float) -> list[Run]:
    """Return finished runs of the same work, each judged as its analysis does; `times` the usual
    time.
    """
    for time in times:
        run = factories.run(
            job,
            cost=f"{time / 100:.9f}",
            seconds=50 + 550 * time,
            started_at=timezone.now() - timedelta(hours=100 - job.runs_made),
        )
        phases = {"initialise": 30.0, "train": 550 * time, "finalise": 20.0}
        run.summary = factories.summary(phase_seconds=phases)
        run.save()
        verdicts.judge_run(run)
    return list(job.present_runs.order_by("number"))


def test_the_verdict_is_told_on_the_run_and_in_the_history_of_its_job(owner, job):
    runs = _history(job, 1.0, 1.01, 0.99, 1.005, 1.3, 1.31)
    first, last = _page(owner, runs[0]), _page(owner, runs[-1])
    assert "recorded as the baseline" in _section(first, "verdict")
    assert "Confirmed regression since run #5: +30" in _section(last, "verdict")
    verdict = _section(last, "verdict")
    assert "Expected machine time: 27 s to 30 s per thousand samples" in verdict
    assert "The verdict leaves out start-up" in verdict
    page = owner.page(reverse("dashboard:job", args=[job.uuid]))
    marks = page[page.index('class="marks"') : page.index("</ol>", page.index('class="marks"'))]
    assert marks.count('class="verdict ') == len(runs)
    assert marks.count("verdict-confirmed-worse") == 2
    assert "#6: Confirmed regression since run #5" in _section(page, "verdicts")
    money = _money(owner, runs[-1])["verdict"]
    assert (money["status"], money["since"]) == ("confirmed", 5)
    assert money["change"] == pytest.approx(0.3, abs=0.02)


def test_the_job_says_the_smallest_change_that_its_history_sees(owner, job):
    _history(job, 1.0, 1.01, 0.99, 1.005, 1.0)
    shown = _section(owner.page(reverse("dashboard:job", args=[job.uuid])), "verdicts")
    assert re.search(r"detects changes of \d+ % or more", shown)


def test_a_run_that_was_held_against_nothing_has_no_verdict(owner, job):
    run = _run(job, Run.FAILED)
    assert 'id="verdict"' not in _page(owner, run)
    assert _money(owner, run)["verdict"] is None

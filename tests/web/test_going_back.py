"""Runs that go back, come back or choose their own way, and savings that are counted again."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.html import read_page
from tests.web import factories
from tests.web.test_recommendations import TABLE, advised, from_engine, run_on, text
from webapp.accounts.models import Token
from webapp.advice import deciding, evidence, life_cycle, recounting, settling
from webapp.advice.models import RealisedSaving, Recommendation, SavingsRecount
from webapp.advice.selectors.inbox import open_saving
from webapp.runs.models import Job, Run

MIGRATION = import_module("webapp.advice.migrations.0003_one_ledger_of_savings")
OLD_SAVINGS = import_module("webapp.advice.migrations.0005_count_old_savings_again")


@pytest.fixture
def job(owner: Any) -> Job:
    return factories.job(owner.workspace)


def analysed(run: Run, *saving: str) -> Run:
    """Save what follows from the analysis of a run that gives reason for these."""
    life_cycle.save(run, [from_engine(each) for each in saving], is_final=True)
    return run


def alternating(job: Job, times: int = 2) -> list[Run]:
    """Runs that follow and go back, the last of which went back."""
    runs = [analysed(run_on(job), "0.5")]
    for _ in range(times):
        runs.append(analysed(run_on(job, "c6i.large", cost="0.5")))
        runs.append(analysed(run_on(job), "0.5"))
    return runs


def told(owner: Any, job: Job) -> list[dict[str, Any]]:
    token = Token.make(owner.workspace, "script", [Token.READ])[1]
    address = f"/api/v1/jobs/{job.uuid}/recommendations"
    answer = Client().get(address, headers={"Authorization": f"Bearer {token}"})
    found: list[dict[str, Any]] = answer.json()["recommendations"]
    return found


def test_going_back_opens_the_recommendation_again_and_coming_back_continues_it(owner, job):
    runs = alternating(job)
    row = Recommendation.objects.get()
    assert (row.state, row.reopened_by) == ("verified", runs[-1])
    assert row.realised_usd == Decimal("1.0")
    assert list(row.not_followed_by.order_by("number")) == [runs[2], runs[4]]
    assert "not followed by the newest run" in owner.page("/recommendations/?state=open")
    assert "Not followed by this run" in owner.page(f"/runs/{runs[2].pk}/")
    assert "Not followed by this run" not in owner.page(f"/runs/{runs[1].pk}/")

    analysed(run_on(job, "c6i.large", cost="0.5"))
    row.refresh_from_db()
    assert (row.state, row.reopened_by) == ("verified", None)
    assert row.realised_usd == Decimal("1.5")
    assert Recommendation.objects.count() == 1


def test_a_reason_that_is_gone_closes_it(owner, job):
    alternating(job)
    analysed(run_on(job))
    row = Recommendation.objects.get()
    assert (row.state, row.reopened_by) == ("verified", None)


def test_one_that_failed_is_not_opened_again(owner, job):
    analysed(run_on(job), "0.5")
    analysed(run_on(job, "c6i.large", 1.5, cost="1.5"))
    analysed(run_on(job), "0.4")
    failed, newer = Recommendation.objects.order_by("pk")
    assert (failed.state, failed.reopened_by) == ("failed", None)
    assert (newer.state, newer.saving_usd) == ("active", Decimal("0.4"))
    assert failed.realised_usd == Decimal("-0.5")


def test_dismissing_many_spares_what_runs_followed(owner, job):
    alternating(job)
    row = Recommendation.objects.get()
    form = {"verb": "dismiss", "reason": "no", "chosen": str(row.uuid)}
    page = read_page(owner.client.post(reverse("advice:decide_many"), form, follow=True))
    assert "dismissing it removes what they saved" in page
    assert RealisedSaving.objects.count() == 2


def test_a_cheaper_machine_that_nobody_named_is_followed_in_your_own_way(owner, job):
    row = advised(run_on(job))
    run = analysed(run_on(job, "t3.large", cost="0.3"))
    (document,) = told(owner, job)
    assert document["state"] == "verified"
    assert document["savings"][0]["is_own_way"]
    assert document["savings"][0]["usd"] == "0.700000000"
    page = text(owner.page(reverse("advice:recommendation", args=[row.uuid])))
    assert f"Followed in your own way: run #{run.number}" in page
    assert "Use it as the new baseline" in page
    assert "followed in your own way" in owner.page(f"/runs/{run.pk}/")


def test_of_what_nobody_has_measured_only_the_low_end_is_open(owner, job):
    figures = {"saving_low_usd": Decimal(1), "saving_usd": Decimal(4), "rung": "prior"}
    factories.recommendation(run_on(job), monthly_saving_usd=Decimal(40), **figures)
    MIGRATION.count_guesses_at_their_low_end(apps, None)
    assert open_saving(Recommendation.objects.all()).usd == Decimal(10)
    for address in ("/", "/savings/", "/recommendations/"):
        assert "$10.00" in owner.page(address)
    assert "at least" in owner.page("/recommendations/")


def as_earlier_versions_stored(job: Job) -> tuple[list[Run], list[Recommendation]]:
    """Store a recommendation for each relapse, each of them with all later savings."""
    runs, rows = [run_on(job)], []
    for _ in range(3):
        rows.append(advised(runs[-1], state=Recommendation.VERIFIED))
        runs.append(run_on(job, "c6i.large", cost="0.5"))
        runs.append(run_on(job))
    for at, row in enumerate(rows):
        row.claimed_by = runs[2 * at + 1]
        row.save()
        for run in runs[2 * at + 1 :: 2]:
            figures = {name: Decimal("0.5") for name in ("usd", "low_usd", "high_usd")}
            row.savings.create(run=run, baseline_usd=Decimal(1), **figures)
    rows.append(advised(runs[-1]))
    return runs, rows


def test_what_earlier_versions_stored_is_counted_again_and_the_page_says_so_once(owner, job):
    dismissed = advised(run_on(factories.job(owner.workspace, "other.py")))
    deciding.dismiss(dismissed, owner.user, "never")
    by_hand = advised(run_on(job), dedupe_key="by hand", candidates=[], change={"code": "new"})
    deciding.follow(by_hand, owner.user)
    runs, rows = as_earlier_versions_stored(job)
    MIGRATION.want_recounts(apps, None)
    assert "are being counted again" in owner.page("/savings/")

    assert recounting.recount_savings(owner.workspace.pk)

    first, *others = (Recommendation.objects.get(pk=row.pk) for row in rows)
    assert first.realised_usd == Decimal("1.5")
    assert [each.run for each in RealisedSaving.objects.order_by("pk")] == runs[1::2]
    assert first.reopened_by == runs[-1]
    assert {other.state for other in others} == {"expired"}
    dismissed.refresh_from_db()
    by_hand.refresh_from_db()
    assert (dismissed.state, by_hand.state) == ("dismissed", "claimed")
    assert by_hand.followed_since is not None
    page = owner.page("/savings/")
    assert "$1.50 are proven instead of $3.00" in page
    assert owner.client.post("/savings/recount/").status_code == 302
    assert "counted again" not in owner.page("/savings/")
    assert not recounting.recount_savings(owner.workspace.pk)


def test_a_workspace_without_savings_is_not_counted_again(owner, job):
    advised(run_on(job))
    MIGRATION.want_recounts(apps, None)
    assert not SavingsRecount.objects.exists()


def test_viewers_and_strangers_close_no_note(owner, stranger, job):
    SavingsRecount.objects.create(
        workspace=owner.workspace,
        before_usd=Decimal(2),
        after_usd=Decimal(1),
        finished_at=timezone.now(),
    )
    stranger.client.post("/savings/recount/")
    assert "counted again" in owner.page("/savings/")


def test_a_dearer_row_of_the_table_is_no_choice_that_follows(job):
    dearer = {**TABLE[0], "instance_type": "c5.4xlarge", "cost_mid_usd": "2.7"}
    row = advised(run_on(job), candidates=[*TABLE, dearer])
    analysed(run_on(job, "c5.4xlarge", cost="2.7"))
    row.refresh_from_db()
    assert (row.state, row.claimed_by) == ("expired", None)


def test_a_run_after_a_year_is_said_not_to_count(owner, job):
    row = advised(run_on(job))
    run = run_on(job, "c6i.large", cost="0.5")
    settling.settle(job)
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(days=400))
    run_on(job, "c6i.large", cost="0.5")
    settling.settle(job)
    row.refresh_from_db()
    assert row.realised_usd == Decimal("0.5")
    until = f"{timezone.now() - timedelta(days=35):%Y-%m-%d}"
    page = text(owner.page(reverse("advice:recommendation", args=[row.uuid])))
    assert f"Counted for a year, until {until}" in page
    assert told(owner, job)[0]["counted_until"].startswith(until)


def sums_by_run(job: Job) -> dict[int, Decimal]:
    sums: dict[int, Decimal] = {}
    for saving in RealisedSaving.objects.filter(recommendation__job=job).select_related("run"):
        sums[saving.run.number] = sums.get(saving.run.number, Decimal(0)) + saving.usd
    return sums


WORKERS = {
    "kind": "load_in_parallel",
    "dedupe_key": "load_in_parallel",
    "candidates": [],
    "change": {"workers": 4},
}


def test_what_was_followed_over_a_year_ago_is_not_counted_for_another_advice_too(job):
    """Both were given by one run: what the first had saved was counted for the second as well."""
    given_by = run_on(job, started_at=timezone.now() - timedelta(days=500))
    advised(given_by)
    advised(given_by, **WORKERS)
    first = run_on(job, slow=0.8, started_at=timezone.now() - timedelta(days=400))
    first.configuration["workers"] = 4
    first.save()
    settling.settle(job)
    both = [run_on(job, "c6i.large", 0.8, cost="0.4") for _ in range(2)]
    for run in both:
        run.configuration["workers"] = 4
        run.save()
    settling.settle(job)
    sums = sums_by_run(job)
    settling.settle(job, is_whole=True)
    assert sums_by_run(job) == sums
    assert sums.keys() == {run.number for run in (first, *both)}
    assert all(sums[run.number] < Decimal("0.5") for run in both)


def test_what_an_advice_saved_whose_evidence_is_too_long_ago_is_not_counted_for_another(
    job, monkeypatch
):
    """Only the newest runs are looked at. Beyond them stays what was proven."""
    advised(run_on(job), **WORKERS)
    advised(run_on(job))
    for kind, cost in (("c5.large", "0.8"), ("c6i.large", "0.4"), ("c6i.large", "0.4")):
        run = run_on(job, kind, slow=0.8, cost=cost)
        run.configuration["workers"] = 4
        run.save()
    settling.settle(job)
    sums = sums_by_run(job)
    assert sums.keys() == {3, 4, 5}
    monkeypatch.setattr(evidence, "MOST_RUNS", 4)
    settling.settle(job)
    assert sums_by_run(job) == sums


def test_an_old_run_that_arrives_late_is_counted_once(job):
    """The years of the run were over at once: what came to light after that was counted beside
    it.
    """
    began = timezone.now() - timedelta(days=2000)
    given_by = run_on(job, started_at=began)
    advised(given_by)
    later = run_on(job, "t3.large", cost="0.3", started_at=began + timedelta(hours=1))
    settling.settle(job)
    factories.recommendation(
        given_by,
        change={"instance_type": "t3.large", "node_count": 1},
        candidates=[{**TABLE[0], "instance_type": "t3.large"}],
    )
    settling.settle(job)
    assert sums_by_run(job) == {later.number: Decimal("0.7")}


def test_what_was_stored_for_runs_of_over_a_year_ago_is_counted_again(owner, job):
    began = timezone.now() - timedelta(days=500)
    row = advised(run_on(job, started_at=began))
    run_on(job, "c6i.large", cost="0.5", started_at=began + timedelta(days=1))
    settling.settle(job)
    RealisedSaving.objects.update(usd=Decimal(5))
    OLD_SAVINGS.want_recounts(apps, None)
    OLD_SAVINGS.want_recounts(apps, None)
    assert recounting.recount_savings(owner.workspace.pk)
    row.refresh_from_db()
    assert row.savings.get().usd == row.realised_usd == Decimal("0.5")
    assert "$0.5000 are proven instead of $5.00" in text(owner.page("/savings/"))


def test_no_count_is_wanted_where_nothing_is_older_and_no_note_says_that_nothing_changed(
    owner, job
):
    began = timezone.now() - timedelta(days=100)
    advised(run_on(job, started_at=began))
    run_on(job, "c6i.large", cost="0.5", started_at=began + timedelta(days=1))
    settling.settle(job)
    OLD_SAVINGS.want_recounts(apps, None)
    assert not SavingsRecount.objects.exists()
    MIGRATION.want_recounts(apps, None)
    assert recounting.recount_savings(owner.workspace.pk)
    assert "counted again" not in owner.page("/savings/")

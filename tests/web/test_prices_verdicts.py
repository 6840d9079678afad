"""The verdicts on runs of one job, analysed one after the other."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.urls import reverse
from django.utils import timezone

from tests.web import factories
from tests.web.judged import CALM, finished
from webapp.accounts.models import AuditEntry, Workspace
from webapp.analysis.models import Regression
from webapp.analysis.successive import verdicts
from webapp.runs.models import Job, Run


@pytest.fixture
def job(owner) -> Job:
    return factories.job(owner.workspace)


def verdict(run: Run) -> dict[str, Any]:
    verdict = Run.objects.get(pk=run.pk).summary.verdict
    return {} if verdict is None else vars(verdict)


HOURLY_RUN_USD = factories.USD_PER_HOUR / 6
"""The cost of the usual 600 s."""


@pytest.fixture
def stranger_job() -> Job:
    return factories.job(factories.workspace("Other team"))


def test_a_dearer_run_is_suspected_until_the_next_confirms_or_clears_it(job):
    first, *_ = [finished(job, cost) for cost in CALM]
    assert verdict(first)["rung"] == "baseline"
    odd = finished(job, 1.3)
    assert verdict(odd)["status"] == "suspected"
    assert verdict(odd)["detects"] == pytest.approx(0.07, abs=0.03)
    finished(job, 1.0)
    assert verdict(odd)["status"] == "cleared"


def test_a_confirmed_regression_stays_open_with_its_cost_until_a_level_is_back(job):
    for slow in CALM:
        finished(job, slow)
    first, second = finished(job, 1.3), finished(job, 1.3)
    assert verdict(first)["status"] == verdict(second)["status"] == "confirmed"
    assert f"since run #{first.number}" in verdict(second)["sentence"]
    for _ in range(4):
        later = finished(job, 1.3)
    assert (verdict(later)["status"], verdict(later)["direction"]) == ("open", "worse")
    regression = Regression.objects.get()
    assert (regression.since, regression.last, regression.run_count) == (first, later, 6)
    # Of $1.30 a run, the loop's 715 of 765 s, and of these the 30 % more.
    each = Decimal("1.3") * 715 / 765 * Decimal("0.3") / Decimal("1.3")
    assert regression.extra_usd == pytest.approx(6 * each, rel=Decimal("0.02"))
    back = finished(job, 1.0)
    assert (verdict(back)["status"], verdict(back)["direction"]) == ("suspected", "better")
    over = finished(job, 1.0)
    assert f"The regression since run #{first.number} is over." in verdict(over)["sentence"]
    regression.refresh_from_db()
    assert (regression.is_open, regression.ended_by) == (False, over)


def test_only_runs_of_the_same_work_in_the_same_way_are_held_against_each_other(job):
    for cost in CALM:
        finished(job, cost)
    other = finished(job, 9.0, parameters={"workers": 8}, configuration={"workers": 8})
    assert verdict(other)["rung"] == "baseline"
    assert "Not compared with #4: instance_type is not set" in " ".join(verdict(other)["beside"])
    assert "workers is 8 instead of 0" in " ".join(verdict(other)["beside"])
    another = finished(job, 9.0, workload={"entry_point": "other.py"})
    assert verdict(another)["rung"] == "baseline"


def test_failed_and_excluded_runs_are_no_baseline(job):
    finished(job, 1.0)
    finished(job, 50.0, state=Run.FAILED)
    finished(job, 50.0, is_excluded=True)
    run = finished(job, 1.0)
    assert verdict(run)["baseline_runs"] == 1


def test_runs_without_a_price_are_judged_and_their_regression_has_no_cost(job):
    for slow in (*CALM, 1.3, 1.3):
        run = finished(job, slow, cost=None)
    assert verdict(run)["status"] == "confirmed"
    assert Regression.objects.get().extra_usd is None


def test_a_neighbour_on_the_machine_changes_the_cost_and_not_the_verdict(job):
    for slow in CALM:
        finished(job, slow, cost=str(HOURLY_RUN_USD))
    for _ in range(2):
        shared = finished(job, 1.0, cost=str(HOURLY_RUN_USD / 2))
    assert verdict(shared)["status"] == "ok"
    assert "It is charged for 50 % of its machines instead of 100 %." in verdict(shared)["beside"]


def test_one_epoch_instead_of_ten_is_the_same_time_per_sample(job):
    """The fixed start-up and end would be carried by a tenth of the samples."""
    for slow in CALM:
        finished(job, slow)
    short = {"phase_seconds": {"initialise": 30.0, "train": 55.0, "finalise": 20.0}}
    run = finished(job, 0.1, work={"samples": 1920.0, "steps": 30.0}, summary=short)
    assert verdict(run)["status"] == "ok"
    assert abs(verdict(run)["change"]) < 0.01


def test_more_data_an_epoch_is_told_and_judged_by_the_sample(job):
    for slow in CALM:
        finished(job, slow, work={"samples": 19_200.0, "epochs": 10.0})
    run = finished(job, 2.0, work={"samples": 38_400.0, "epochs": 10.0})
    assert verdict(run)["status"] == "ok"
    assert "An epoch has 2 times the samples that it had before." in verdict(run)["beside"]


def test_a_slow_machine_is_a_finding_of_its_own(job):
    """Every third run is on a machine that takes 9 % longer."""
    for n in range(12):
        is_slow = n % 3 == 2
        run = finished(job, CALM[n % 4] * (1.09 if is_slow else 1.0))
        factories.node(run, hostname="old-box" if is_slow else f"box-{n % 2}")
        verdicts.judge_run(run)
    assert {verdict(run)["status"] for run in job.present_runs} <= {"ok", "cleared", "suspected"}
    assert not Regression.objects.exists()
    assert "Runs on old-box take 9 % longer" in " ".join(verdict(run)["machines"])


def test_weekends_that_take_longer_are_a_finding_in_the_workspaces_time_zone(job):
    """The evenings of Fridays and Saturdays in UTC are Saturdays and Sundays in Auckland."""
    Workspace.objects.filter(pk=job.workspace_id).update(time_zone="Pacific/Auckland")
    first = timezone.now().replace(hour=20, minute=0) - timedelta(days=40)
    for n in range(28):
        at = first + timedelta(days=n)
        run = finished(
            Job.objects.get(pk=job.pk), 1.08 if at.weekday() in (4, 5) else 1.0, started_at=at
        )
    assert "Runs on Saturdays and Sundays take 8 % longer" in " ".join(verdict(run)["machines"])


def test_a_few_noisy_jobs_of_the_workspace_tell_what_to_expect_of_a_new_one(job):
    for name in ("a", "b", "c"):
        other = factories.job(job.workspace, name)
        for n in range(10):
            finished(other, 1.0 + (0.1 if n % 2 else -0.1))
    for slow in (1.0, 1.02, 0.98, 1.2):
        run = finished(job, slow)
    assert verdict(run)["status"] == "ok"
    assert "3 other jobs of this workspace" in verdict(run)["noise_words"]
    quiet = factories.job(factories.workspace("Other team"), "d")
    for slow in (1.0, 1.02, 0.98, 1.2):
        run = finished(quiet, slow)
    assert verdict(run)["status"] == "suspected"


def test_an_accepted_regression_is_the_new_measure_until_that_is_taken_back(owner, job):
    for slow in (*CALM, 1.3, 1.3, 1.3):
        run = finished(job, slow)
    since = len(CALM) + 1
    owner.client.post(
        reverse("analysis:accept_regression", args=[job.uuid, since]), {"note": "New data"}
    )
    accepted = finished(job, 1.3)
    assert verdict(accepted)["status"] == "ok"
    assert verdict(finished(job, 1.6))["status"] == "suspected"
    page = owner.page(reverse("dashboard:job", args=[job.uuid]))
    assert "New data" in page
    assert "Accept this level" not in page
    owner.client.post(reverse("analysis:open_regression_again", args=[run.pk]))
    assert Regression.objects.get().is_open
    assert "Regression open since" in owner.page(reverse("dashboard:job", args=[job.uuid]))


def test_another_workspace_accepts_nothing(owner, stranger_job):
    for slow in (*CALM, 1.3, 1.3):
        finished(stranger_job, slow)
    address = reverse("analysis:accept_regression", args=[stranger_job.uuid, 5])
    assert owner.client.post(address, {"note": ""}).status_code == 404
    assert Regression.objects.get().is_open


def test_pinned_runs_stay_the_baseline(job):
    for cost in (1.0, 1.01, 0.99):
        finished(job, cost, is_pinned=True)
    for _ in range(3):
        last = finished(job, 2.0)
    assert verdict(last)["baseline_runs"] == 3
    assert verdict(last)["change"] == pytest.approx(1.0, abs=0.01)


def test_a_price_cut_is_no_improvement_of_the_job(job):
    for cost in CALM:
        finished(job, cost)
    half = {"usd_per_hour": factories.USD_PER_HOUR / 2}
    cheap = finished(job, 1.0, cost="0.5", summary=half)
    assert verdict(cheap)["status"] == "ok"
    assert abs(verdict(cheap)["change"]) < 0.01


def test_it_names_what_moved(job):
    for cost in CALM:
        finished(job, cost)
    run = finished(job, 1.5, summary={"data_wait_share": 0.9})
    assert verdict(run)["causes"] == [
        "train took longer, by 50 % of a run's usual time",
        "data wait rose from 62 to 90 %",
    ]


def test_a_job_of_very_many_runs_is_judged_by_its_newest(job, django_assert_max_num_queries):
    began = timezone.now() - timedelta(days=10)
    runs = [
        Run(
            id=uuid4(), workspace=job.workspace, job=job, number=n + 1,
            state=Run.FINISHED, cost_usd=Decimal(1), work={"samples": 10.0},
            started_at=began + timedelta(minutes=n), ended_at=began + timedelta(minutes=n + 10),
            summary=factories.summary(workload_key="w", configuration_key="c"),
        )
        for n in range(1000)
    ]  # fmt: skip
    Run.objects.bulk_create(runs)
    newest = Run.objects.get(number=1000)
    with django_assert_max_num_queries(20):
        verdicts.judge_run(newest)
    assert verdict(newest)["baseline_runs"] == 30


def test_retraining_each_day_on_more_data_is_one_history(job):
    """A dated folder, a growing number of samples, a new output folder and seed on every run."""
    for day in range(1, 9):
        samples = 19_200.0 * (1 + day / 50)
        more = {
            "parameters": {
                "data_dir": f"/data/sales/2026-11-{day:02}", "num_samples": int(samples),
                "out": f"runs/{day}", "seed": day * 7, "timestamp": 1_764_000_000 + day,
            },
            "workload": {"entry_point": "train.py", "dataset": f"sales-2026110{day}"},
            "work": {"samples": samples, "epochs": 1.0},
        }  # fmt: skip
        run = finished(job, CALM[day % 4] * (1 + day / 50) * (1.3 if day == 8 else 1), **more)
    assert verdict(run)["status"] == "suspected"
    assert verdict(run)["baseline_runs"] == 7


def test_people_set_what_is_the_same_work(owner, stranger, job):
    for fold in (1, 1, 1, 2, 2):
        run = finished(job, 1.0, parameters={"fold": fold, "depth": 18})
    address = reverse("analysis:compared_by", args=[job.uuid])
    page = owner.page(address)
    assert "2 values in 5 runs" in page
    assert verdict(run)["baseline_runs"] == 1
    choose = reverse("analysis:choose_roles", args=[job.uuid])
    assert stranger.client.post(choose, {"role-fold": "ignored"}).status_code == 404
    assert stranger.client.get(address).status_code == 404
    owner.client.post(choose, {"role-fold": "ignored", "role-depth": "", "role-x": "work"})
    assert verdict(run)["baseline_runs"] == 4
    assert "set here" in owner.page(address)
    entry = AuditEntry.objects.get(action="job.compared")
    assert entry.change == {"fold": ["", "ignored"]}
    owner.client.post(choose, {"role-fold": ""})
    assert verdict(run)["baseline_runs"] == 1


def test_a_job_without_parameters_says_so(owner, job):
    assert "has parameters yet" in owner.page(reverse("analysis:compared_by", args=[job.uuid]))


def test_a_run_that_is_still_being_analysed_is_not_compared(job):
    for slow in CALM:
        finished(job, slow)
    phases = {"initialise": 30.0, "train": 8950.0, "finalise": 20.0}
    slow = factories.summary(phase_seconds=phases)
    partial = factories.run(job, seconds=9000, summary=slow)
    factories.analysis(partial, is_final=False)
    last = finished(job, 1.0)
    assert verdict(last)["status"] == "ok"
    assert verdict(partial) == {}
    verdicts.judge_run(partial)
    assert verdict(partial)["status"] == "suspected"


def test_a_regression_older_than_the_history_stays_open_until_it_is_accepted(
    owner, job, monkeypatch
):
    for slow in (*CALM, 1.3, 1.3, 1.3):
        finished(job, slow)
    monkeypatch.setattr(verdicts, "LOOKED_AT", 4)
    for _ in range(3):
        last = finished(job, 1.3)
    assert Regression.objects.get().run_count == 6
    monkeypatch.setattr(verdicts, "MOST_LOOKED_AT", 4)
    for _ in range(3):
        finished(job, 1.3)
    regression = Regression.objects.get()
    assert (regression.is_open, regression.last) == (True, last)
    owner.client.post(reverse("analysis:accept_regression", args=[job.uuid, 5]))
    regression.refresh_from_db()
    assert not regression.is_open
    owner.client.post(reverse("analysis:open_regression_again", args=[regression.last_id]))
    regression.refresh_from_db()
    assert regression.is_open


def test_where_the_loop_was_not_measured_the_whole_cost_is_judged(job):
    for slow in (*CALM, 1.3, 1.3):
        run = finished(job, slow, cost="1.3", summary={"phase_seconds": {}})
    regression = Regression.objects.get()
    assert regression.since.number == run.number - 1
    change = Decimal(str(regression.change))
    assert regression.extra_usd == pytest.approx(
        2 * Decimal("1.3") * change / (1 + change), rel=Decimal("0.01")
    )


def test_runs_that_cost_nothing_have_a_regression_that_costs_nothing(job):
    for slow in (*CALM, 1.3, 1.3):
        finished(job, slow, cost="0")
    assert Regression.objects.get().extra_usd == 0

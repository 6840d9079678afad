"""The verdicts on runs of one job, analysed one after the other."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from tests.web import factories
from webapp.analysis import verdicts
from webapp.runs.models import Job, Run


@pytest.fixture
def job(owner) -> Job:
    return factories.job(owner.workspace)


def finished(job: Job, cost: float, **more: object) -> Run:
    """A run of the job with a cost for its 19,200 samples, judged as its analysis does."""
    started_at = timezone.now() - timedelta(hours=100 - job.runs_made)
    run = factories.run(job, cost=f"{cost:.9f}", started_at=started_at, **more)
    run.summary = factories.summary(**verdicts.keys(run))
    run.save()
    verdicts.judge(run)
    return Run.objects.get(pk=run.pk)


def verdict(run: Run) -> dict[str, Any]:
    verdict = Run.objects.get(pk=run.pk).summary.verdict
    return {} if verdict is None else vars(verdict)


CALM = (1.0, 1.01, 0.99, 1.005)


def test_a_dearer_run_is_suspected_until_the_next_confirms_or_clears_it(job):
    first, *_ = [finished(job, cost) for cost in CALM]
    assert verdict(first)["rung"] == "baseline"
    odd = finished(job, 1.3)
    assert verdict(odd)["status"] == "suspected"
    assert verdict(odd)["detects"] == pytest.approx(0.07, abs=0.03)
    finished(job, 1.0)
    assert verdict(odd)["status"] == "cleared"
    dear = finished(job, 1.3)
    last = finished(job, 1.31)
    assert verdict(dear)["status"] == verdict(last)["status"] == "confirmed"
    assert verdict(last)["since"] == dear.number
    assert f"since run #{dear.number}" in verdict(last)["sentence"]


def test_only_runs_of_the_same_work_in_the_same_way_are_held_against_each_other(job):
    for cost in CALM:
        finished(job, cost)
    other = finished(job, 9.0, parameters={"workers": 8}, configuration={"workers": 8})
    assert verdict(other)["rung"] == "baseline"
    another = finished(job, 9.0, workload={"entry_point": "other.py"})
    assert verdict(another)["rung"] == "baseline"


def test_failed_unpriced_and_excluded_runs_are_no_baseline(job):
    finished(job, 1.0)
    finished(job, 50.0, state=Run.FAILED)
    finished(job, 50.0, is_excluded=True)
    unpriced = factories.run(job, cost=None)
    assert verdict(unpriced) == {}
    run = finished(job, 1.0)
    assert verdict(run)["baseline_runs"] == 1


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
    started_at = timezone.now()
    cheap = factories.run(job, cost="0.5", started_at=started_at)
    half = factories.USD_PER_HOUR / 2
    cheap.summary = factories.summary(usd_per_hour=half, **verdicts.keys(cheap))
    cheap.save()
    verdicts.judge(cheap)
    assert verdict(cheap)["status"] == "ok"
    assert abs(verdict(cheap)["change"]) < 0.01


def test_it_names_what_moved(job):
    for cost in CALM:
        finished(job, cost)
    run = factories.run(job, cost="1.5", seconds=900)
    waiting = factories.summary(
        data_wait_share=0.9, phase_seconds={"initialise": 30.0, "train": 850.0, "finalise": 20.0}
    )
    run.summary = replace(waiting, **verdicts.keys(run))
    run.save()
    verdicts.judge(run)
    assert verdict(run)["causes"] == [
        "train took longer, by 50 % of a run's usual time",
        "data wait rose from 62 to 90 %",
    ]


def test_a_job_of_very_many_runs_is_judged_by_its_newest(job, django_assert_max_num_queries):
    runs = [
        Run(
            id=uuid4(), workspace=job.workspace, job=job, number=n + 1,
            state=Run.FINISHED, cost_usd=Decimal(1), work={"samples": 10.0},
            summary=factories.summary(workload_key="w", configuration_key="c"),
        )
        for n in range(1000)
    ]  # fmt: skip
    Run.objects.bulk_create(runs)
    newest = Run.objects.get(number=1000)
    with django_assert_max_num_queries(6):
        verdicts.judge(newest)
    assert verdict(newest)["baseline_runs"] == 30

"""The page of a job: a sentence about its last run, its table of runs, and the way to a
comparison."""

from __future__ import annotations

import re
from datetime import timedelta

from django.urls import reverse
from django.utils import timezone

from tests.web import factories


def _address(job) -> str:  # type: ignore[no-untyped-def]
    return reverse("dashboard:job", args=[job.uuid])


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_a_single_run_is_the_baseline(owner):
    job = factories.job(owner.workspace)
    factories.run(job)
    assert "Baseline recorded" in owner.page(_address(job))

    factories.run(job)
    assert "Baseline recorded" not in owner.page(_address(job))


def test_a_job_without_a_run_has_a_page(owner):
    assert "This job has no runs yet" in owner.page(_address(factories.job(owner.workspace)))


def test_the_last_run_is_held_against_the_one_before(owner):
    job = factories.job(owner.workspace)
    factories.run(job, cost="2.00")
    factories.run(job, cost="1.00")

    text = _text(owner.page(_address(job)))

    assert re.search(r"▼\s+50\.0 %", text)
    assert "vs #1" in text


def test_failed_runs_are_listed_and_are_nobodys_baseline(owner):
    job = factories.job(owner.workspace)
    factories.run(job, cost="2.00")
    factories.run(job, cost="0.10", state="failed")
    factories.run(job, cost="1.00")

    text = _text(owner.page(_address(job)))

    assert "Failed" in text
    assert "vs #1" in text


def test_costs_are_compared_for_the_same_amount_of_work(owner):
    job = factories.job(owner.workspace)
    factories.run(job, cost="1.00", work={"epochs": 10.0})
    factories.run(job, cost="2.00", work={"epochs": 40.0})

    assert re.search(r"▼\s+50\.0 %\s+per epoch", _text(owner.page(_address(job))))


def test_a_run_without_a_price_keeps_its_line_and_says_so(owner):
    job = factories.job(owner.workspace)
    factories.run(job, cost="2.00")
    factories.run(job, cost=None, summary=factories.summary(missing=["7: no price for x9"]))

    text = _text(owner.page(_address(job)))

    assert "no price" in text
    assert "1 without a price" in text


def test_findings_are_counted_by_run(owner):
    job = factories.job(owner.workspace)
    run = factories.run(job)
    for rule, state in [("a", "fired"), ("b", "fired"), ("c", "passed")]:
        factories.judgement(run, rule, state)

    cell = re.search(r'data-label="Findings">(.*?)</td>', owner.page(_address(job)), re.DOTALL)

    assert cell is not None
    assert _text(cell[1]).strip() == "2"


def test_open_recommendations_lead_to_their_evidence(owner):
    run = factories.run(factories.job(owner.workspace))
    factories.recommendation(run, title="Move to t3.medium")
    factories.recommendation(run, title="Not this one", state="dismissed")

    page = owner.page(_address(run.job))

    open_ones, decided = page.split("What was decided")
    assert "Move to t3.medium" in open_ones
    assert "Not this one" not in open_ones
    assert "Not this one" in decided
    assert reverse("dashboard:run", args=[run.pk]) + "#advice" in page


def test_the_table_of_runs_has_pages_and_the_newest_are_first(owner):
    job = factories.job(owner.workspace)
    for minutes in range(60, 0, -1):
        factories.run(job, started_at=timezone.now() - timedelta(hours=2, minutes=minutes))

    def numbers(query: str) -> list[str]:
        return re.findall(r'class="name"[^>]*>#(\d+)<', owner.page(_address(job) + query))

    assert numbers("")[0] == "60"
    assert len(numbers("")) == 50
    assert numbers("?page=2")[-1] == "1"
    assert "60 runs" in owner.page(_address(job))

"""The history on a job's page: levels, the expected range, and what changed at which run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone

from advisor.run_summary import SuccessiveVerdict
from tests.web import factories
from webapp.advice.models import Recommendation


def _verdict(number: int, **more):  # type: ignore[no-untyped-def]
    values = {
        "status": "ok",
        "rung": "level",
        "direction": "same",
        "since": None,
        "unit": "samples",
        "baseline_runs": 4,
        "change": 0.0,
        "detects": 0.08,
        "sentence": f"As expected at #{number}.",
        "expected_seconds": 1.0,
        "low_seconds": 0.9,
        "high_seconds": 1.1,
    }
    return SuccessiveVerdict(**values | more)


def _run(job, cost: str, days_ago: float = 1, summary=None, **verdict):  # type: ignore[no-untyped-def]
    number = job.runs_made + 1
    own = summary or factories.summary(phase_usd={"train": Decimal(cost)}, phase_seconds={})
    own = replace(own, verdict=_verdict(number, **verdict))
    started_at = timezone.now() - timedelta(days=days_ago)
    return factories.run(job, cost=cost, started_at=started_at, summary=own, work={})


def _page(person, job, query: str = ""):  # type: ignore[no-untyped-def]
    html = person.page(reverse("dashboard:job", args=[job.uuid]) + query)
    chart = re.search(r'id="job-history"[^>]*>(.*?)</script>', html, re.DOTALL)
    return html, json.loads(chart[1]) if chart else None


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


@pytest.fixture
def job(owner):
    """Return a job with three runs at $1.00, then a regression at $1.50 that is still open."""
    job = factories.job(owner.workspace)
    for days_ago in (9, 8, 7):
        _run(job, "1.00", days_ago)
    worse = {"status": "confirmed", "direction": "worse", "since": 4, "change": 0.5}
    first = _run(job, "1.50", 3, **worse, causes=["data wait rose from 6 to 30 %"])
    last = _run(job, "1.50", 2, **worse, regression_since=4)
    factories.regression(first, last=last, confirmed_by=last)
    return job


def test_runs_of_one_cost_are_a_level_and_the_open_regression_is_another(owner, job):
    html, chart = _page(owner, job)

    assert [(level["numbers"], level["usd"]) for level in chart["levels"]] == [
        ([4, 5], 1.5),
        ([1, 2, 3], 1.0),
    ]
    assert [level["is_open"] for level in chart["levels"]] == [True, False]
    assert [point["is_open"] for point in chart["points"]] == [False] * 3 + [True] * 2
    levels = _text(html.split('id="levels"')[1].split("</section>")[0])
    assert "#4 to #5 ▲ open regression $1.50 ▲ +50 % Data wait rose from 6 to 30 %" in levels


def test_what_was_expected_is_at_the_level_before(owner, job):
    _, chart = _page(owner, job)

    last = chart["points"][-1]
    assert last["expected"] == pytest.approx(1.0)
    assert (last["low"], last["high"]) == (pytest.approx(0.9), pytest.approx(1.1))


def test_the_start_up_is_expected_to_cost_what_it_did(owner):
    job = factories.job(owner.workspace)
    phases = {"initialise": 300.0, "train": 300.0}
    for _ in range(2):
        _run(job, "2.00", summary=factories.summary(phase_seconds=phases), change=1.0)

    last = _page(owner, job)[1]["points"][-1]

    # Half of its time is start-up: only the other half would have been half as dear.
    assert last["expected"] == pytest.approx(1.5)


def test_followed_advice_prices_and_hardware_are_marked_where_they_changed(owner):
    job = factories.job(owner.workspace)
    first = _run(job, "1.00")
    dearer = factories.summary(usd_per_hour=Decimal("0.10"))
    _run(job, "1.10", summary=dearer)
    large = factories.summary(instance_types=["c5.xlarge"], usd_per_hour=Decimal("0.17"))
    last = _run(job, "0.80", summary=large)
    factories.recommendation(
        first, title="Use c5.xlarge", state=Recommendation.CLAIMED, claimed_by=last
    )

    html, chart = _page(owner, job)

    assert [[mark["kind"] for mark in point["marks"]] for point in chart["points"]] == [
        [],
        ["price"],
        ["advice", "hardware"],
    ]
    text = _text(html)
    assert "#2 $0.0850 → $0.1000 an hour" in text
    assert "#3 1 × c5.large → 1 × c5.xlarge" in text
    assert "#3 Followed: Use c5.xlarge" in text


def test_a_range_leaves_out_older_runs(owner):
    job = factories.job(owner.workspace)
    for days_ago in (80, 40, 2, 1):
        _run(job, "1.00", days_ago)

    def shown(query: str) -> list[int]:
        return [point["number"] for point in _page(owner, job, query)[1]["points"]]

    assert shown("") == [1, 2, 3, 4]
    assert shown("?range=30") == [3, 4]
    assert shown("?range=90") == [1, 2, 3, 4]
    assert shown("?until=2") == [1, 2]
    assert shown("?until=99") == shown("?until=x") == [1, 2, 3, 4]


def test_a_range_without_runs_says_so(owner):
    job = factories.job(owner.workspace)
    for days_ago in (80, 70):
        _run(job, "1.00", days_ago)

    html, chart = _page(owner, job, "?range=30")

    assert chart is None
    assert "No run began in these 30 days" in html


def test_a_run_without_a_price_has_no_point(owner):
    job = factories.job(owner.workspace)
    factories.run(job, cost="2.00")
    factories.run(job, cost=None)

    chart = _page(owner, job)[1]

    assert [point["run_usd"] for point in chart["points"]] == [2.0, None]
    assert chart["points"][1]["usd"] is None

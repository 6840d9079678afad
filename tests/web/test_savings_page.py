"""The savings page: realised, not yet proven, open and missed, and that its sums agree."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from tests.web import factories
from webapp.advice.models import RealisedSaving, Recommendation
from webapp.runs.models import Job, Run
from webapp.spend.savings import savings_page

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PAGE = "/savings/"


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def followed(job: Job, state: str = Recommendation.VERIFIED, **more: Any) -> Recommendation:
    return factories.recommendation(factories.run(job), state=state, **more)


def saved(row: Recommendation, usd: str, at: datetime, promised: str | None = "1") -> Run:
    run = factories.run(row.job, started_at=at)
    amount = Decimal(usd)
    RealisedSaving.objects.create(
        recommendation=row,
        run=run,
        usd=amount,
        low_usd=amount - Decimal("0.5"),
        high_usd=amount + Decimal("0.25"),
        baseline_usd=Decimal(10),
        predicted_usd=None if promised is None else Decimal(promised),
        predicted_low_usd=None if promised is None else Decimal(promised),
        predicted_high_usd=None if promised is None else Decimal(promised),
    )
    return run


@pytest.fixture
def job(owner: Any) -> Job:
    return factories.job(owner.workspace)


def test_an_empty_page_says_how_savings_are_found(owner):
    assert "it is found automatically" in owner.page(PAGE)


def test_months_jobs_and_the_whole_add_up_to_the_same(owner, job):
    other = factories.job(owner.workspace, "speech/train.py")
    one, two = followed(job), followed(other)
    saved(one, "2", datetime(2026, 9, 30, 23, tzinfo=UTC))
    saved(one, "3", datetime(2026, 10, 1, 1, tzinfo=UTC))
    saved(two, "-1", datetime(2026, 11, 2, tzinfo=UTC))
    saved(two, "7", datetime(2024, 1, 2, tzinfo=UTC))

    page = savings_page(owner.workspace, NOW)

    assert page.proven.usd == Decimal(11)
    assert page.proven.low_usd == Decimal(9)
    by_month = {str(line.month): line.saved.usd for line in page.months if line.saved.runs}
    assert by_month == {"2026-09": 2, "2026-10": 3, "2026-11": -1}
    assert page.earlier.usd == 7
    assert page.months[-1].sums.mid == page.proven.usd
    assert [(line.name, line.saved.usd) for line in page.jobs] == [
        ("speech/train.py", 6),
        (job.name, 5),
    ]


@pytest.mark.parametrize(
    ("usd", "amounts"), [("2", ["$3", "$2", "$1", "$0"]), ("-4", ["$0", "−$2", "−$4", "−$6"])]
)
def test_the_curve_has_an_axis_with_round_amounts(owner, job, usd, amounts):
    saved(followed(job), usd, timezone.now() - timedelta(days=1))

    page = owner.page(PAGE)

    assert re.findall(r"<text[^>]*>([^<]+)</text>", page) == amounts
    assert len(re.findall(r'class="plot-grid"', page)) == len(amounts)


def test_months_are_those_of_the_workspace(owner, job):
    owner.workspace.time_zone = "Asia/Tokyo"
    owner.workspace.save()
    saved(followed(job), "2", datetime(2026, 9, 30, 23, tzinfo=UTC))

    page = savings_page(owner.workspace, NOW)

    assert [str(line.month) for line in page.months if line.saved.runs] == ["2026-10"]


def test_what_is_not_proven_is_not_realised_and_what_failed_is(owner, job):
    saved(followed(job, Recommendation.CLAIMED), "4", NOW - timedelta(days=1))
    saved(followed(job, Recommendation.FAILED), "-2", NOW - timedelta(days=2))

    page = savings_page(owner.workspace, NOW)

    assert (page.proven.usd, page.unproven.usd) == (-2, 4)
    assert page.calibration == -2.0
    assert page.calibrated_count == 1


def test_what_was_dismissed_or_whose_run_is_deleted_saved_nothing(owner, job):
    saved(followed(job, Recommendation.DISMISSED), "4", NOW - timedelta(days=1))
    gone = saved(followed(job), "3", NOW - timedelta(days=1))
    saved(followed(job), "1", NOW - timedelta(days=1))
    Run.objects.filter(pk=gone.pk).update(deleted_at=NOW)

    assert savings_page(owner.workspace, NOW).proven.usd == 1


def test_missed_is_the_share_of_later_runs_on_the_same_machines_since_it_was_seen(owner, job):
    seen_at = NOW - timedelta(days=5)
    evidence = factories.run(job, cost="10", started_at=NOW - timedelta(days=6))
    factories.recommendation(evidence, saving_usd=Decimal("2.5"), seen_at=seen_at)
    factories.run(job, cost="8", started_at=NOW - timedelta(days=3))
    factories.run(job, cost="4", started_at=NOW - timedelta(days=2))
    elsewhere = {"instance_type": "c6i.large", "node_count": 1}
    factories.run(job, cost="100", started_at=NOW - timedelta(days=1), configuration=elsewhere)
    factories.run(job, cost="100", started_at=NOW - timedelta(days=1), probe={"steps": 5})
    factories.run(job, cost=None, started_at=NOW - timedelta(days=1))

    page = savings_page(owner.workspace, NOW)

    assert page.missed_usd == Decimal("3.0")
    assert [line.missed_usd for line in page.jobs] == [Decimal("3.0")]


@pytest.mark.parametrize("changes", [{"seen_at": None}, {"saving_usd": None, "seen_at": NOW}])
def test_what_nobody_saw_or_has_no_price_was_not_missed(owner, job, changes):
    factories.recommendation(factories.run(job, cost="10"), **changes)
    factories.run(job, cost="8", started_at=timezone.now())

    assert savings_page(owner.workspace, timezone.now()).missed_usd is None


def test_a_long_list_of_what_was_followed_says_how_many_there_are(owner, job, monkeypatch):
    monkeypatch.setattr("webapp.spend.savings.MOST_FOLLOWED", 2)
    for number in range(3):
        followed(job, title=f"Change {number}", changed_at=NOW + timedelta(days=number))

    page = text(owner.page(PAGE))

    assert "What was followed All 3" in page
    assert "Change 0" not in page
    assert "Change 1" in page


def test_a_job_without_a_price_is_not_left_out_silently(owner, job):
    factories.recommendation(factories.run(job), monthly_saving_usd=Decimal(3))
    other = factories.job(owner.workspace, "speech/train.py")
    factories.recommendation(factories.run(other), monthly_saving_usd=None, saving_usd=None)

    for address in (PAGE, "/recommendations/", "/"):
        assert "in 2 jobs, 1 without a price" in text(owner.page(address))


def test_the_page_and_its_csv_tell_the_same_and_nothing_of_others(owner, stranger, job):
    row = followed(job, title="Use spot", realised_usd=Decimal(3), realised_runs=1)
    run = saved(row, "3", timezone.now() - timedelta(days=1))
    theirs = followed(factories.job(stranger.workspace, "secret"), title="Secret change")
    saved(theirs, "70", timezone.now())

    page = text(owner.page(PAGE))
    lines = list(csv.DictReader(io.StringIO(owner.page("/savings.csv"))))

    assert "Realised $3.00" in page
    assert "Secret" not in page
    assert "$70" not in page
    assert [(each["recommendation"], each["run"], each["saved_usd"]) for each in lines] == [
        ("Use spot", str(run.number), "3.000000000")
    ]
    assert lines[0]["is_proven"] == "yes"
    assert "$3.00" in text(owner.page("/"))

"""The list of jobs: spend, possible savings, and first steps in a new workspace."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from advisor.run_summary import SuccessiveVerdict
from tests.html import read_page
from tests.web import factories
from webapp.dashboard.selectors.jobs import TREND_RUNS
from webapp.runs.models import Run


def _page(person, query: str = "") -> str:  # type: ignore[no-untyped-def]
    return read_page(person.client.get(reverse("dashboard:jobs") + query, follow=True))


def _verdict(**changes: Any) -> SuccessiveVerdict:
    """Return a confirmed verdict: the run costs more than those before it."""
    figures = {"since": 1, "unit": "samples", "baseline_runs": 8, "detects": 0.07}
    known: dict[str, Any] = {"status": "confirmed", "rung": "change_points", "direction": "worse"}
    return SuccessiveVerdict(**known, **figures, **changes, sentence="It takes longer.")


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def _names(html: str) -> list[str]:
    return re.findall(r'class="name"[^>]*>([^<]+)<', html)


def test_an_empty_workspace_shows_how_to_connect_the_agent_and_no_secret(owner):
    page = _page(owner)

    assert "trimtab run -- python train.py" in page
    assert "TRIMTAB_URL=" in page
    assert not re.search(r"tt_[A-Za-z0-9_-]{10}", page)


def test_a_job_shows_its_last_run_its_spend_and_its_cost(owner):
    job = factories.job(owner.workspace, owner="ada")
    factories.run(job, cost="1.5")
    factories.run(job, cost="0.0142", state="failed")

    text = _text(_page(owner))

    assert "vision/train.py" in text
    assert "ada" in text
    assert "Failed" in text
    assert "$0.0142" in text
    assert "$1.51" in text


def test_runs_of_more_than_a_month_ago_are_not_in_the_spend_even_if_imported_today(owner):
    job = factories.job(owner.workspace)
    long_ago = timezone.now() - timedelta(days=40)
    factories.run(job, cost="77", started_at=long_ago, created_at=timezone.now())
    factories.run(job, cost="2.5")

    page = _page(owner)

    assert "$2.50" in page
    assert "$79.50" not in page


def test_a_run_without_a_price_is_said_and_not_counted_as_nothing(owner):
    job = factories.job(owner.workspace)
    factories.run(job, cost="2.5")
    factories.run(job, cost=None, summary=factories.summary(missing=["no price for x9.huge"]))

    text = _text(_page(owner))

    assert "1 without a price" in text
    assert "no price" in text
    assert "$0.0000" not in text


def test_a_running_run_costs_at_least_so_much(owner):
    factories.run(factories.job(owner.workspace), cost="2.5", state="running")

    assert re.search(r"at least\s+\$2\.50", _text(_page(owner)))


def test_the_open_saving_is_the_best_active_recommendation(owner):
    run = factories.run(factories.job(owner.workspace))
    for saving, state in [("12.00", "active"), ("30.00", "active"), ("99.00", "dismissed")]:
        factories.recommendation(run, monthly_saving_usd=saving, state=state)

    page = _page(owner)

    assert "$30.00" in page
    assert "$42.00" not in page
    assert "$99.00" not in page


def test_two_runs_draw_a_trend_and_one_does_not(owner):
    factories.run(factories.job(owner.workspace, "once"))
    assert 'class="spark"' not in _page(owner)

    twice = factories.job(owner.workspace, "twice")
    factories.run(twice, cost="0.5")
    factories.run(twice, cost="0.25")
    assert _page(owner).count('class="spark"') == 1


@pytest.mark.parametrize(("text", "shown"), [("spee", ["speech"]), ("BOB", ["vision"]), ("", None)])
def test_the_filter_in_the_address_finds_by_name_and_owner(owner, text, shown):
    factories.job(owner.workspace, "speech")
    factories.job(owner.workspace, "vision", owner="bob")

    names = _names(_page(owner, f"?q={text}"))

    assert sorted(names) == (shown or ["speech", "vision"])


def test_a_filter_that_finds_nothing_says_so_and_leads_back(owner):
    factories.job(owner.workspace, "speech")

    page = _page(owner, "?q=<b>zebra</b>")

    assert "&lt;b&gt;zebra&lt;/b&gt;" in page
    assert "Show all jobs" in page


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("name", "a-cheap"),
        ("spend", "b-dear"),
        ("runs", "c-busy"),
        ("last", "c-busy"),
        ("?", "c-busy"),
        ("cost", "b-dear"),
        ("verdict", "d-slower"),
        ("trend", "b-dear"),
        ("saving", "d-slower"),
        ("-name", "d-slower"),
        ("-spend", "a-cheap"),
        ("-cost", "a-cheap"),
        ("-trend", "d-slower"),
    ],
)
def test_the_sort_in_the_address_orders_the_jobs(owner, sort, first):
    factories.run(factories.job(owner.workspace, "a-cheap"), cost="0.10")
    dear = factories.job(owner.workspace, "b-dear")
    factories.run(dear, cost="9", summary=factories.summary(verdict=_verdict(change=0.5)))
    slower = factories.job(owner.workspace, "d-slower")
    judged = factories.summary(verdict=_verdict(change=0.1))
    since = timezone.now() - timedelta(hours=9)
    factories.regression(factories.run(slower, cost="1", summary=judged, started_at=since))
    factories.recommendation(slower.runs.get())
    busy = factories.job(owner.workspace, "c-busy")
    for minutes in (3, 2, 1):
        began = timezone.now() - timedelta(minutes=minutes)
        factories.run(busy, cost="0.20", started_at=began)

    assert _names(_page(owner, f"?sort={sort}"))[0] == first


COLUMNS = ("name", "last", "verdict", "runs", "spend", "cost", "saving", "trend")


@pytest.mark.parametrize("column", COLUMNS)
def test_each_column_sorts_and_its_order_can_be_turned(owner, column):
    factories.run(factories.job(owner.workspace))
    asked, natural = f"?sort={column}", "ascending" if column == "name" else "descending"
    turned = {"ascending": "descending", "descending": "ascending"}[natural]

    page = _page(owner, asked)

    assert re.findall(r'aria-sort="(\w+)"', page) == [natural]
    assert f'href="?sort=-{column}"' in page
    assert {f'href="?sort={other}"' in page for other in COLUMNS if other != column} == {True}
    page = _page(owner, f"?sort=-{column}")
    assert re.findall(r'aria-sort="(\w+)"', page) == [turned]
    assert f'href="{asked}"' in page


def test_the_verdict_is_on_the_last_run_that_finished(owner):
    job = factories.job(owner.workspace)
    judged = factories.summary(verdict=_verdict(change=0.25))
    factories.run(job, summary=judged, started_at=timezone.now() - timedelta(hours=2))
    factories.run(job, state=Run.RUNNING)

    assert re.search(r"Confirmed regression \+25 %, #1\b", _text(_page(owner)))


def test_the_verdict_is_on_one_of_the_runs_that_the_trend_looks_at(owner):
    job = factories.job(owner.workspace)
    judged = factories.summary(verdict=_verdict(change=0.25))
    factories.run(job, summary=judged, started_at=timezone.now() - timedelta(days=2))
    for hours in range(TREND_RUNS - 1):
        began = timezone.now() - timedelta(hours=1 + hours)
        factories.run(job, state=Run.FAILED, started_at=began)
    assert "Confirmed regression" in _page(owner)

    factories.run(job, state=Run.FAILED)
    assert "Confirmed regression" not in _page(owner)


def test_an_open_regression_is_told_with_its_cost_and_leads_to_it(owner):
    run = factories.run(factories.job(owner.workspace))
    factories.regression(run, extra_usd="1.25")

    page = _page(owner)

    assert re.search(r"Regression open \+25 % since #1, \$1\.25", _text(page))
    assert f"{reverse('dashboard:job', args=[run.job.uuid])}#regression-1" in page


def test_the_trend_is_of_the_cost_for_the_same_work(owner):
    job = factories.job(owner.workspace)
    for hours, samples, cost in ((3, 1000.0, "1.00"), (2, 4000.0, "4.00")):
        began = timezone.now() - timedelta(hours=hours)
        factories.run(job, cost=cost, work={"samples": samples}, started_at=began)
    factories.run(job, cost="0.05", work={"samples": 9.0}, state=Run.FAILED)

    (words,) = re.findall(r'class="spark"[^>]*aria-label="([^"]+)"', _page(owner))

    assert words == "cost per thousand samples of the last 2 runs, from $1.00 to $1.00"


def test_runs_that_run_beside_the_last_one_are_counted_and_listed(owner):
    job = factories.job(owner.workspace)
    for hours in (3, 2):
        began = timezone.now() - timedelta(hours=hours)
        factories.run(job, state=Run.RUNNING, started_at=began)
    assert "2 running" in _text(_page(owner))

    factories.run(job)
    (link,) = re.findall(r'href="([^"]+)">2 running', _page(owner))
    listed = owner.page(link.replace("&amp;", "&"))
    assert len(re.findall(r'name="run"', listed)) == 2


def test_the_csv_has_columns_that_programs_may_count_on(owner):
    head, *_ = owner.page(reverse("dashboard:jobs_csv")).splitlines()
    assert head.split(",") == [
        *("job", "owner", "tags", "runs", "spend_30_days_usd", "runs_without_price_30_days"),
        *("last_run_at", "last_run_state", "last_cost_usd", "open_saving_month_usd"),
        *("last_verdict", "open_regression_usd", "url"),
    ]


def test_the_csv_has_the_verdict_and_what_an_open_regression_has_cost(owner):
    judged = factories.summary(verdict=_verdict(change=0.25))
    factories.regression(factories.run(factories.job(owner.workspace), summary=judged))

    [line] = csv.DictReader(owner.page(reverse("dashboard:jobs_csv")).splitlines())

    assert (line["last_verdict"], line["open_regression_usd"]) == (
        "Confirmed regression",
        "0.100000000",
    )


def test_the_totals_are_over_all_pages(owner):
    for i in range(55):
        factories.run(factories.job(owner.workspace, f"job-{i:02}"), cost="2")

    for page in ("?page=1", "?page=2"):
        text = _text(_page(owner, page))
        assert "55 jobs" in text
        assert "$110.00" in text
    assert len(_names(_page(owner, "?page=2"))) == 5


def test_sample_data_is_marked(owner):
    assert "Sample data" not in _page(owner)

    owner.workspace.is_sample_data = True
    owner.workspace.save()

    assert "Sample data" in _page(owner)


def test_names_are_escaped(owner):
    factories.job(owner.workspace, '<script>alert("x")</script>')

    assert "<script>alert" not in _page(owner)

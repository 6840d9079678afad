"""The what-if page: it answers as the API does, and says what is missing."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import pytest
from django.urls import reverse

from advisor.money import display_usd
from tests.web import factories
from webapp.accounts.models import Token
from webapp.advice.selectors.front import drawing
from webapp.runs.models import Run


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


@pytest.fixture
def run(owner: Any) -> Run:
    made = factories.run(factories.job(owner.workspace), seconds=3600)
    factories.node(made)
    return made


def ask(person: Any, run: Run, **question: Any) -> str:
    address = reverse("advice:what_if", args=[run.pk])
    return person.page(f"{address}?{urlencode(question, doseq=True)}")


def over_the_api(person: Any, run: Run, **question: Any) -> Any:
    token = Token.make(person.workspace, "script", [Token.READ])[1]
    answer = person.client.post(
        f"/api/v1/runs/{run.pk}/what-if",
        question,
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert answer.status_code == 200
    return answer.json()


@pytest.mark.parametrize(
    ("page", "api"),
    [
        ({}, {}),
        ({"slower_pct": "0", "runs_a_month": "31"}, {"slower_pct": 0, "runs_a_month": 31}),
        ({"options": ["spot", "on_demand"]}, {"options": ["spot", "on_demand"]}),
        (
            {"objective": "deadline", "deadline_hours": "0.9"},
            {"objective": "deadline", "deadline_seconds": 3240},
        ),
        (
            {"objective": "fastest", "under_usd": "0.2"},
            {"objective": "fastest", "under_usd": "0.2"},
        ),
        (
            {"regions": "us-west-2, us-east-1", "epochs": "2"},
            {"regions": ["us-west-2", "us-east-1"], "epochs": 2},
        ),
    ],
)
def test_page_and_api_give_one_answer(owner, run, page, api):
    told, shown = over_the_api(owner, run, **api), text(ask(owner, run, **page))
    chosen = told["chosen"]

    assert f"{chosen['node_count']} × {chosen['instance_type']}" in shown
    for usd in (chosen["cost_low_usd"], chosen["cost_high_usd"], told["monthly_usd"]):
        assert display_usd(Decimal(usd)) in shown


def test_a_limit_that_nothing_keeps_is_said(owner, run):
    page = ask(owner, run, objective="deadline", deadline_hours="0.001")
    assert "No machine whose price and fit are known does this work within these limits" in page


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"objective": "fastest"}, "Needed for this."),
        ({"objective": "deadline"}, "Needed for this."),
        ({"slower_pct": "-1"}, "greater than or equal to 0"),
        ({"epochs": "nan"}, "Enter a number."),
        ({"regions": "a b c d e f"}, "Name at most 5 regions."),
        ({"regions": "mars-1"}, "There is no price in"),
        ({"options": "barter"}, "barter is not one of the available choices"),
    ],
)
def test_what_cannot_be_asked_is_marked(owner, run, question, said):
    page = ask(owner, run, **question)

    assert said in page
    assert "a run in" not in text(page)


def test_a_run_that_tells_too_little_says_what_is_missing(owner, run):
    run.summary = factories.summary(memory_p99_bytes=None)
    run.save()
    assert "How much memory was in use" in ask(owner, run)


def test_it_is_offered_where_advice_is_read_and_others_runs_are_not_answered(owner, stranger, run):
    address = reverse("advice:what_if", args=[run.pk])
    row = factories.recommendation(run)

    assert address in owner.page(reverse("advice:recommendation", args=[row.uuid]))
    assert address in owner.page(reverse("dashboard:run", args=[run.pk]))
    assert stranger.client.get(address).status_code == 404


def test_the_page_of_a_recommendation_answers_the_same(owner, run):
    row = factories.recommendation(run, change={"instance_type": "c5.large"})
    address = reverse("advice:recommendation", args=[row.uuid])

    page = owner.page(f"{address}?options=spot&options=on_demand")

    told = over_the_api(owner, run, options=["spot", "on_demand"])
    chosen = told["chosen"]
    answer = f"{chosen['node_count']} × {chosen['instance_type']}"
    assert answer in text(page.split('id="answer-title"')[1].split("</section>")[0])
    rows = re.findall(r"<tr><th[^>]*>1 × c5\.large(.*?)</tr>", page, re.DOTALL)
    assert all("recommended" in row for row in rows)
    assert sum(">now<" in row for row in rows) == 1
    assert f'action="{address}#what-if"' in page


def test_machines_that_can_not_do_the_work_are_named_with_the_reason(owner, run):
    page = text(ask(owner, run).split('id="why-not"')[1].split("</section>")[0])

    for said in re.findall(r"(\d+) machines?: (.+?) \(", page):
        assert int(said[0]) >= 1
    assert "burstable: full speed lasts only as long as its credits (1 × t" in page


def test_the_drawing_holds_every_interval_of_what_it_marks(owner, run):
    context = owner.client.get(reverse("advice:what_if", args=[run.pk])).context

    marked = [point for point in context["drawing"].points if point.kind != "other"]
    assert {"chosen", "present"} <= {point.kind for point in marked}
    for point in marked:
        assert 0 <= point.x_low <= point.x <= point.x_high <= 100
        assert 0 <= point.y_high <= point.y <= point.y_low <= 100


def test_a_wide_interval_is_cut_and_leaves_the_points_apart(owner, run):
    context = owner.client.get(reverse("advice:what_if", args=[run.pk])).context
    chosen, present = context["chosen"], context["present"]
    wide = replace(chosen, time_high_seconds=1e7)

    drawn = drawing([wide, present], [wide], wide, present, lambda each: "same")

    assert drawn is not None
    assert max(100 - point.y for point in drawn.points) >= 40
    [point] = [each for each in drawn.points if each.kind == "chosen"]
    assert point.x < point.x_high <= 100
    assert 0 <= point.y_high < point.y


@pytest.mark.parametrize("factor", [1.0, 1.3, 2.1, 3.3, 7.7, 13.0, 61.0, 900.0])
def test_the_axes_end_close_to_the_values(owner, run, factor):
    context = owner.client.get(reverse("advice:what_if", args=[run.pk])).context
    chosen = context["chosen"]
    usd = chosen.cost_mid_usd * Decimal(str(factor))
    scaled = replace(chosen, time_mid_seconds=factor * chosen.time_mid_seconds, cost_mid_usd=usd)

    drawn = drawing([scaled], [scaled], scaled, None, lambda each: "same")

    assert drawn is not None
    assert 60 <= drawn.points[0].x <= 100
    assert 60 <= 100 - drawn.points[0].y <= 100


def test_a_recommendation_about_a_run_that_tells_too_little_says_what_is_missing(owner, run):
    row = factories.recommendation(run)
    run.summary = factories.summary(memory_p99_bytes=None)
    run.save()

    page = owner.page(reverse("advice:recommendation", args=[row.uuid]))

    assert "How much memory was in use" in page
    assert 'id="front-title"' not in page


def test_a_run_that_cannot_tell_leads_to_one_that_can(owner: Any, run: Run) -> None:
    failed = factories.run(run.job, state=Run.FAILED)

    page = ask(owner, failed)

    assert f'href="/runs/{run.pk}/what-if/">Ask about run #{run.number}</a>' in page


def test_the_cost_of_a_month_is_told_if_its_runs_are(owner: Any, run: Run) -> None:
    assert "Cost of a month" not in ask(owner, run)
    assert "Cost of a month" in ask(owner, run, runs_a_month=31)

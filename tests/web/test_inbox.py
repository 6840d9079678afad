"""The recommendations of all jobs: sums, filters, and deciding on several at once."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import AuditEntry, Membership
from webapp.advice.models import Recommendation
from webapp.advice.scope import recommendations_of
from webapp.advice.selectors.inbox import OpenSaving, open_saving

PAGE = "/recommendations/"


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def titles(html: str) -> list[str]:
    return re.findall(r'class="name" href="/recommendations/[^>]*>([^<]+)<', html)


def advised(of: Any, name: str, usd: str | None = "1", title: str = "", **more: Any) -> Any:
    """Make a recommendation for a job with this name."""
    job = of.workspace.jobs.filter(name=name).first() or factories.job(of.workspace, name)
    monthly = None if usd is None else Decimal(usd)
    run = factories.run(job)
    return factories.recommendation(
        run, title=title or f"Change {name}", monthly_saving_usd=monthly, **more
    )


def decide(person: Any, rows: list[Recommendation], verb: str, **more: str) -> str:
    form = {"chosen": [str(row.uuid) for row in rows], "verb": verb, "asked": "", **more}
    answer = person.client.post(reverse("advice:decide_many"), form, follow=True)
    assert answer.status_code == 200
    return text(read_page(answer))


def states(*rows: Recommendation) -> list[str]:
    for row in rows:
        row.refresh_from_db()
    return [row.state for row in rows]


def test_open_ones_come_by_their_monthly_saving_and_unpriced_ones_last(owner):
    for name, usd in (("a", "2"), ("b", None), ("c", "30"), ("d", "0.5")):
        advised(owner, name, usd)

    page = owner.page(PAGE)

    assert titles(page) == ["Change c", "Change a", "Change d", "Change b"]
    assert "no price" in page


def test_a_job_that_has_not_run_for_a_month_is_not_counted_among_those_that_save(owner):
    for name, usd in (("a.py", "2"), ("b.py", "0")):
        run = factories.run(factories.job(owner.workspace, name))
        factories.recommendation(run, monthly_saving_usd=Decimal(usd))

    assert "Open: $2.00 a month in 1 job." in text(owner.page(PAGE))


def test_the_sum_counts_the_best_of_each_job_as_the_list_of_jobs_does(owner, stranger):
    advised(owner, "a", "2")
    advised(owner, "a", "3")
    advised(owner, "b", "0.5")
    advised(owner, "b", "40", state=Recommendation.DISMISSED)
    advised(stranger, "c", "70")

    assert "Open: $3.50 a month in 2 jobs" in text(owner.page(PAGE))
    assert "$3.50" in text(owner.page("/jobs/"))
    assert "$3.50" in text(owner.page("/"))
    assert "$3.50" in text(owner.page("/savings/"))


def test_a_job_without_a_price_is_not_a_saving_of_zero(owner):
    advised(owner, "a", None)

    assert "Open: no price a month in 1 job" in text(owner.page(PAGE))


@pytest.mark.parametrize(
    ("monthly", "usd", "jobs", "unpriced"),
    [
        ([], "0", 0, 0),
        (["1", "2.5"], "3.5", 2, 0),
        (["1", "0"], "1", 1, 0),
        (["0", "0"], "0", 2, 0),
        (["1", None, "0"], "1", 2, 1),
        ([None, "0"], None, 1, 1),
        ([None, None], None, 2, 2),
    ],
)
def test_jobs_that_save_nothing_are_counted_only_if_no_other_is_open(
    owner, monthly, usd, jobs, unpriced
):
    for number, each in enumerate(monthly):
        advised(owner, f"job-{number}", each)

    saving = open_saving(recommendations_of(owner.workspace))

    assert saving == OpenSaving(None if usd is None else Decimal(usd), jobs, unpriced)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("kind=change_instance_type", ["Change a"]),
        ("effort=high", ["Change b"]),
        ("risk=low", ["Change a", "Change c"]),
        ("owner=ada", ["Change c"]),
        ("q=B", ["Change b"]),
        ("kind=nothing", []),
        ("risk=nothing", ["Change a", "Change b", "Change c"]),
    ],
)
def test_filters_leave_out_the_others(owner, query, found):
    advised(owner, "a", "9", kind="change_instance_type")
    advised(owner, "b", "8", effort="high", risk=3.9)
    last = advised(owner, "c", "7")
    last.job.owner = "ada"
    last.job.save()

    page = owner.page(f"{PAGE}?{query}")

    assert titles(page) == found
    assert ("No open recommendation matches" in page) == (not found)


def test_a_list_without_any_says_what_it_looked_at(owner):
    assert "No run has been analysed yet" in owner.page(PAGE)
    factories.analysis(factories.run(factories.job(owner.workspace)))
    assert "Nothing to do: 1 run analysed" in owner.page(PAGE)


def test_looking_at_the_list_freezes_what_it_promises(owner):
    row = advised(owner, "a", "2")
    owner.page(PAGE)
    row.refresh_from_db()

    assert row.seen_at is not None
    assert row.seen_estimate["monthly_saving_usd"] == "2.000000000"


def test_several_are_dismissed_with_one_reason_and_opened_again(owner):
    rows = [advised(owner, name) for name in "abc"]

    told = decide(owner, rows[:2], "dismiss", reason="too risky", asked="state=open&risk=low")

    assert "2 recommendations dismissed." in told
    assert states(*rows) == ["dismissed", "dismissed", "active"]
    assert [row.state_reason for row in rows] == ["too risky", "too risky", ""]
    assert AuditEntry.objects.filter(action="recommendation.dismissed").count() == 2
    assert "too risky" in owner.page(f"{PAGE}?state=dismissed")

    assert "2 recommendations opened again." in decide(owner, rows[:2], "reopen")
    assert states(*rows) == ["active", "active", "active"]


def test_several_are_snoozed_until_a_day(owner):
    rows = [advised(owner, name) for name in "ab"]
    day = timezone.localdate() + timedelta(days=30)

    assert "2 recommendations snoozed." in decide(owner, rows, "snooze", until=str(day))

    assert states(*rows) == ["snoozed", "snoozed"]
    assert str(day) in owner.page(f"{PAGE}?state=snoozed")


def test_what_may_not_be_decided_is_named_and_the_others_are(owner):
    fine, early = advised(owner, "a"), advised(owner, "b", is_provisional=True)
    day = str(timezone.localdate() + timedelta(days=3))

    told = decide(owner, [fine, early], "snooze", until=day)

    assert states(fine, early) == ["snoozed", "active"]
    assert "1 recommendation snoozed." in told
    assert "b: Change b: It is provisional" in told


@pytest.mark.parametrize(
    ("verb", "more", "said"),
    [
        ("dismiss", {}, "Say why"),
        ("snooze", {"until": "soon"}, "Choose a day"),
        ("snooze", {}, "Choose a day"),
        ("delete", {}, "Choose what to do"),
    ],
)
def test_an_incomplete_decision_changes_nothing(owner, verb, more, said):
    row = advised(owner, "a")

    assert said in decide(owner, [row], verb, **more)
    assert states(row) == ["active"]


def test_nothing_chosen_is_said(owner):
    advised(owner, "a")
    assert "Choose at least one" in decide(owner, [], "dismiss", reason="no")


def test_others_recommendations_are_neither_listed_nor_decided(owner, stranger):
    theirs = advised(stranger, "secret")

    assert "secret" not in owner.page(PAGE)
    assert "secret" not in decide(owner, [theirs], "dismiss", reason="mine now")
    assert states(theirs) == ["active"]
    assert owner.client.get(f"{PAGE}{theirs.uuid}/").status_code == 404


def test_viewers_see_no_boxes_and_may_not_decide(owner):
    row = advised(owner, "a")
    Membership.objects.filter(user=owner.user).update(role=Membership.VIEWER)

    assert 'name="chosen"' not in owner.page(PAGE)
    form = {"chosen": [str(row.uuid)], "verb": "dismiss", "reason": "no"}
    assert owner.client.post(reverse("advice:decide_many"), form).status_code == 403
    assert states(row) == ["active"]


def test_the_csv_has_every_page_and_no_formula(owner):
    for number in range(60):
        advised(owner, f"job {number}", str(number))
    advised(owner, "job x", None, title="=1+1")

    answer = owner.client.get("/recommendations.csv")
    lines = list(csv.DictReader(io.StringIO(read_page(answer))))

    assert len(lines) == 61
    assert lines[0]["saving_month_usd"] == "59.000000000"
    assert lines[-1]["saving_month_usd"] == ""
    assert lines[-1]["recommendation"] == "'=1+1"


def test_a_recommendation_has_a_page_of_its_own(owner):
    row = advised(owner, "a", how_to_apply=["Set num_workers=4."], evidence=["It waits."])

    page = text(owner.page(f"{PAGE}{row.uuid}/"))

    assert "Set num_workers=4." in page
    assert "It waits." in page
    data = {"page": "own", "reason": "not now"}
    answer = owner.client.post(reverse("advice:dismiss", args=[row.uuid]), data)
    assert answer.url == f"{PAGE}{row.uuid}/"

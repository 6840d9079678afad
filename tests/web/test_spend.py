"""The cost of a month: exact sums by job, owner, tag and month, in the workspace's time zone."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse

from advisor.costing.charges import as_document
from advisor.costing.cost import cost_of_run
from advisor.pricing.book import PriceBook
from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import Token, Workspace
from webapp.analysis.models import CostPart
from webapp.analysis.pricing import machine_uses
from webapp.prices.book import to_price_row
from webapp.prices.models import Price
from webapp.runs.models import Job, Node, Run, Session
from webapp.spend.months import Month
from webapp.spend.sums import spends
from webapp.spend.year import by_month

BERLIN = "Europe/Berlin"
MONTHS = ("2026-10", "2026-11")


def held(
    job: Job,
    start: datetime,
    seconds: float,
    *prices: Price,
    key: str = "c5.large",
    owns_machine: bool = False,
    **more: Any,
) -> Run:
    """Make a run that held one machine from `start` on, with its cost by day as its analysis counts
    it.
    """
    run = factories.run(job, cost=None, seconds=seconds, started_at=start, **more)
    node = factories.node(run, instance_type=key, owns_machine=owns_machine)
    length = round(seconds * 1000)
    Session.objects.create(
        id=uuid4(), node=node, boot_id="b", started_at=start, last_ms=length, ended_ms=length
    )
    return counted(run, node, prices or (price(),))


def counted(run: Run, node: Node, prices: tuple[Price, ...]) -> Run:
    rows = {row.pk: row for row in prices}
    cost = cost_of_run(
        [machine_uses.node_use(node)], PriceBook([to_price_row(row) for row in prices])
    )
    for part in cost.parts:
        row = CostPart.objects.create(
            run=run,
            node=node,
            day=part.day,
            microseconds=int(part.seconds * 10**6),
            usd=part.usd,
            charges=as_document(part.day, part.charges),
        )
        row.prices.set([rows[used.id] for used in part.price_rows])
    run.cost_usd = cost.total_usd
    run.save()
    return run


def price(usd: str = "1", since: datetime = datetime(2020, 1, 1, tzinfo=UTC), **more: Any) -> Price:
    row, _ = Price.objects.get_or_create(
        provider="aws", service="ec2", region="us-east-1", valid_from=since,
        instance_type=more.pop("instance_type", "c5.large"),
        defaults={"usd_per_hour": Decimal(usd), "source": "list", **more},
    )  # fmt: skip
    return row


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type]


def table(person, **query: str) -> dict[str, list[str]]:  # type: ignore[no-untyped-def]
    """Return first column -> the others, of the CSV."""
    answer = person.client.get(reverse("spend:spend_csv"), query)
    assert answer.status_code == 200
    lines = list(csv.reader(StringIO(read_page(answer))))
    return {line[1]: line[2:] for line in lines[1:]}


def api(person, **query: str) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    token = Token.make(person.workspace, "script", [Token.READ])[1]
    return Client().get("/api/v1/spend", query, headers={"Authorization": f"Bearer {token}"}).json()


@pytest.fixture
def job(owner) -> Job:
    return factories.job(owner.workspace, tags={"team": "vision"})


def test_page_csv_and_api_say_the_same_month(owner, job):
    held(job, utc(2026, 10, 5, 12), 3600.5)
    other = factories.job(owner.workspace, "speech/train.py")
    held(other, utc(2026, 10, 6, 12), 7200)
    held(other, utc(2026, 9, 6, 12), 7200)

    assert table(owner, month="2026-10") == {
        "speech/train.py": ["1", "0", "2.000000000", "", "", ""],
        "vision/train.py": ["1", "0", "1.000138889", "", "", ""],
    }
    answer = api(owner, month="2026-10")
    assert [(line["label"], line["usd"]) for line in answer["lines"]] == [
        ("speech/train.py", "2.000000000"),
        ("vision/train.py", "1.000138889"),
    ]
    assert answer["total"]["usd"] == "3.000138889"
    page = owner.page(reverse("spend:spend") + "?month=2026-10")
    assert "$3.00" in page
    assert "vision/train.py" in page


def test_a_run_counts_for_its_own_owner_and_tags_and_else_for_its_jobs(owner, job):
    held(job, utc(2026, 10, 5), 3600)
    held(job, utc(2026, 10, 6), 3600, owner="eve", tags={"team": "speech", "stage": "dev"})

    assert set(table(owner, month="2026-10", by="owner")) == {"nobody", "eve"}
    assert {name: line[2] for name, line in table(owner, month="2026-10", by="tag").items()} == {
        "vision": "1.000000000",
        "speech": "1.000000000",
    }
    by_stage = table(owner, month="2026-10", by="tag", key="stage")
    assert {name: line[2] for name, line in by_stage.items()} == {
        "dev": "1.000000000",
        "no stage": "1.000000000",
    }


def test_runs_without_a_price_are_counted_and_never_nothing(owner, job):
    factories.run(job, cost=None, started_at=utc(2026, 10, 5))
    assert table(owner, month="2026-10") == {"vision/train.py": ["1", "1", "", "", "", ""]}
    page = owner.page(reverse("spend:spend") + "?month=2026-10")
    assert "no price" in page
    assert "1 without a price</a>, not included" in page
    held(job, utc(2026, 10, 6), 3600)
    assert table(owner, month="2026-10")["vision/train.py"][:3] == ["2", "1", "1.000000000"]


def test_what_was_billed_is_held_against_the_cost_of_just_those_runs(owner, job):
    billed = held(job, utc(2026, 10, 5), 3600)
    held(job, utc(2026, 10, 6), 3600)
    Run.objects.filter(pk=billed.pk).update(billed_usd=Decimal("0.9"))
    assert table(owner, month="2026-10")["vision/train.py"][2:] == [
        "2.000000000", "0.900000000", "1.000000000", "-0.100000000"
    ]  # fmt: skip
    page = owner.page(reverse("spend:spend") + "?month=2026-10")
    assert "−$0.1000 compared with the computed cost" in page


def test_a_month_begins_at_midnight_in_the_workspaces_zone(owner, job):
    """23:00 UTC of 31 October is midnight in Berlin, and 22:00 of 30 September."""
    Workspace.objects.filter(pk=owner.workspace.pk).update(time_zone=BERLIN)
    run = held(job, utc(2026, 10, 31, 22, 30), 3600)

    usd = {month: table(owner, month=month)["vision/train.py"][2] for month in MONTHS}

    assert usd == {"2026-10": "0.500000000", "2026-11": "0.500000000"}
    assert sum(map(Decimal, usd.values())) == run.cost_usd


def test_a_cut_within_a_day_pays_each_price_for_its_own_time(owner, job):
    Workspace.objects.filter(pk=owner.workspace.pk).update(time_zone=BERLIN)
    dearer_at = utc(2026, 10, 31, 22)
    old, new = price("1", valid_to=dearer_at), price("4", dearer_at)
    run = held(job, utc(2026, 10, 31, 21), 3 * 3600, old, new)

    usd = {month: table(owner, month=month)["vision/train.py"][2] for month in MONTHS}

    assert usd == {"2026-10": "5.000000000", "2026-11": "4.000000000"}
    assert sum(map(Decimal, usd.values())) == run.cost_usd


@pytest.mark.parametrize(
    ("zone", "hours"),
    [(BERLIN, 31 * 24 - 1), ("America/Sao_Paulo", 31 * 24), ("Asia/Kathmandu", 31 * 24)],
)
def test_a_month_in_which_the_clocks_change_is_as_long_as_it_is(owner, job, zone, hours):
    """The last Sunday of March has 23 hours in Berlin; no hour is counted twice or lost."""
    run = held(job, utc(2026, 2, 1), 90 * 86_400)
    months = [Month(2026, n, ZoneInfo(zone)) for n in range(1, 7)]

    month_sums = [sum(s.usd or 0 for s in spends(owner.workspace, m.start, m.end)) for m in months]

    assert month_sums[2] == hours
    assert sum(month_sums) == run.cost_usd
    assert [s.usd or 0 for s in by_month(owner.workspace, months[::-1])] == month_sums[::-1]


def test_the_months_of_a_run_sum_to_its_cost_wherever_they_are_cut(owner, job):
    run = held(job, utc(2026, 10, 30, 7, 13, 5), 3 * 86_400 + 12_345.678)
    start, end = run.started_at, run.ended_at
    for share in (0.001, 0.2, 0.5, 0.77, 0.999):
        cut = start + (end - start) * share
        sides = [(start - timedelta(days=9), cut), (cut, end + timedelta(days=9))]
        both = [sum(s.usd or 0 for s in spends(owner.workspace, *side)) for side in sides]
        assert sum(both) == run.cost_usd
        assert all(both)


@pytest.mark.parametrize("seconds", [0, 25, 86_400])
def test_costs_of_an_earlier_version_are_split_by_time_and_sum_to_the_cost(owner, job, seconds):
    """Such costs don't say what each second cost. A minimum may be all there is on a day."""
    run = held(job, utc(2026, 10, 31, 23, 59, 30), seconds, owns_machine=True)
    CostPart.objects.update(charges=None)
    day = CostPart.objects.latest("day").day
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    for cut in (midnight - timedelta(hours=2), midnight + timedelta(seconds=10)):
        sides = [(utc(2026, 10, 1), cut), (cut, utc(2026, 12, 1))]
        both = [sum(s.usd or 0 for s in spends(owner.workspace, *side)) for side in sides]
        assert sum(both) == run.cost_usd
        assert bool(both[0]) == (cut > run.started_at)
        assert both[1]


def test_the_last_months_are_one_line_each_from_the_first_run_on(owner, job):
    held(job, utc(2026, 8, 5), 3600)
    held(job, utc(2026, 10, 5), 7200)
    answer = api(owner, month="2026-10", by="month")
    assert [(line["label"], line["runs"], line["usd"]) for line in answer["lines"]] == [
        ("2026-10", 1, "2.000000000"),
        ("2026-09", 0, None),
        ("2026-08", 1, "1.000000000"),
    ]


def test_a_name_that_looks_like_a_formula_is_text(owner):
    held(factories.job(owner.workspace, "=1+1"), utc(2026, 10, 5), 3600)
    assert list(table(owner, month="2026-10")) == ["'=1+1"]


def test_a_month_of_nothing_says_so(owner):
    page = owner.page(reverse("spend:spend") + "?month=2025-01")
    assert "No runs in January 2025." in page


@pytest.mark.parametrize("query", ["month=2026-13", "month=x", "month=9999-01", "by=zodiac"])
def test_there_is_no_such_month_or_table(owner, query):
    assert owner.client.get(reverse("spend:spend") + f"?{query}").status_code == 404


def test_deleted_runs_and_those_of_others_are_not_in_it(owner, stranger, job):
    held(job, utc(2026, 10, 5), 3600, deleted_at=utc(2026, 10, 6))
    held(factories.job(stranger.workspace), utc(2026, 10, 5), 3600)
    assert table(owner, month="2026-10") == {}

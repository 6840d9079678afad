"""The list of jobs by owner and tag: filtered, grouped, and as a file."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from decimal import Decimal
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.urls import reverse
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.html import read_page
from tests.web import factories
from tests.web.conftest import Person
from webapp.dashboard.selectors.facets import Facet
from webapp.runs.models import Run

SPEECH = {"team": "speech"}


@pytest.fixture
def full(owner) -> Person:
    """Return an owner of two jobs: one of ada's and, by the job's word, of team vision; one whose
    runs differ.
    """
    vision = factories.job(owner.workspace, "vision", owner="grace", tags={"team": "vision"})
    mixed = factories.job(owner.workspace, "mixed")
    factories.run(vision, cost="1", owner="ada")
    factories.run(vision, cost="2")
    factories.run(mixed, cost="4", owner="ada", tags=SPEECH)
    factories.run(mixed, cost="8", owner="bob", tags={"team": "vision", "3": 'a "b", %'})
    factories.run(mixed, cost=None, owner="bob")
    gone = factories.run(mixed, cost="64", owner="ada", tags=SPEECH)
    gone.deleted_at = timezone.now()
    gone.save()
    long_ago = timezone.now() - timedelta(days=40)
    factories.run(mixed, cost="128", owner="ada", started_at=long_ago)
    return owner


def page(person: Person, *query: tuple[str, str]) -> str:
    return person.page(f"/jobs/?{urlencode(query)}")


def names(html: str) -> list[str]:
    return re.findall(r'class="name"[^>]*>([^<]+)<', html)


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def lines(person: Person, *query: tuple[str, str]) -> list[dict[str, str]]:
    answer = person.client.get(f"{reverse('dashboard:jobs_csv')}?{urlencode(query)}")
    assert answer.headers["Content-Type"].startswith("text/csv")
    return list(csv.DictReader(read_page(answer).splitlines()))


@pytest.mark.parametrize(
    ("query", "spent"),
    [
        ([], {"mixed": "12", "vision": "3"}),
        ([("owner", "ada")], {"mixed": "4", "vision": "1"}),
        ([("owner", "grace")], {"vision": "2"}),
        ([("owner", "bob")], {"mixed": "8"}),
        ([("tag", "team=vision")], {"mixed": "8", "vision": "3"}),
        ([("tag", "team=speech")], {"mixed": "4"}),
        ([("tag", "team=(none)")], {"mixed": ""}),
        ([("tag", 'team=vision'), ("tag", '3=a "b", %')], {"mixed": "8"}),
        ([("tag", "team=vision"), ("owner", "ada")], {"vision": "1"}),
        ([("owner", "ada"), ("q", "MIX")], {"mixed": "4"}),
        ([("owner", "nobody")], {}),
        ([("tag", "team=VISION")], {}),
        ([("tag", "")], {"mixed": "12", "vision": "3"}),
    ],
)  # fmt: skip
def test_a_job_counts_with_those_of_its_runs_that_the_filter_finds(full, query, spent):
    spend_by_job = {line["job"]: line["spend_30_days_usd"] for line in lines(full, *query)}
    assert {job: usd and str(int(Decimal(usd))) for job, usd in spend_by_job.items()} == spent
    assert sorted(names(page(full, *query))) == sorted(spent)


def test_what_is_filtered_by_is_shown_and_taken_off_one_by_one(full):
    shown = page(full, ("owner", "ada"), ("tag", "team=vision"), ("sort", "name"))
    assert "owner: ada" in shown
    assert "team: vision" in shown
    off = re.findall(r'class="chip" href="([^"]+)"', shown)
    assert [address.replace("&amp;", "&") for address in off] == [
        "?tag=team%3Dvision&sort=name",
        "?owner=ada&sort=name",
    ]


def test_a_filter_that_finds_nothing_says_by_what(full):
    shown = text(page(full, ("owner", "<nobody>"), ("tag", "team=none")))
    assert "No run matches owner: &lt;nobody&gt; and team: none" in shown
    assert "Show all jobs" in shown


def groups(person: Person, *query: tuple[str, str]) -> list[tuple[str, str]]:
    shown = page(person, *query)
    rows = re.findall(r'<tr class="group">(.*?)</tr>', shown, re.DOTALL)
    return [(names(row)[0], re.findall(r"\$[\d.,]+|–|no price", text(row))[-1]) for row in rows]


def test_groups_have_what_their_runs_spent_and_add_up(full):
    by_owner = groups(full, ("group", "owner"))
    assert by_owner == [("bob", "$8.00"), ("ada", "$5.00"), ("grace", "$2.00")]
    assert groups(full, ("group", "tag:team")) == [
        ("vision", "$11.00"), ("speech", "$4.00"), ("No team", "no price"),
    ]  # fmt: skip
    assert groups(full, ("group", "tag:3")) == [
        ("a &quot;b&quot;, %", "$8.00"), ("No 3", "$7.00"),
    ]  # fmt: skip
    shown = text(page(full, ("group", "owner")))
    assert "1 without a price" in shown
    assert re.search(r"3 groups, 2 jobs 6 \$15\.00", shown)


def test_a_group_leads_to_its_jobs_whatever_else_is_asked(full):
    shown = page(full, ("group", "tag:team"), ("owner", "ada"))
    inside = re.findall(r'class="name" href="([^"]+)"', shown)
    assert [names(full.page(f"/jobs/{address.replace('&amp;', '&')}")) for address in inside] == [
        ["mixed"], ["vision"], ["mixed"],
    ]  # fmt: skip
    assert "owner=ada" in inside[0]


def test_a_group_of_many_jobs_shows_some_and_says_how_many_more(owner):
    for number in range(13):
        factories.run(factories.job(owner.workspace, f"job-{number:02}"), cost="1", owner="ada")
    shown = page(owner, ("group", "owner"))
    assert "13 jobs" in text(shown)
    assert "3 more" in text(shown)
    assert "job-09" in shown
    assert "job-10" not in shown


def test_the_file_has_all_pages_and_nothing_that_a_spreadsheet_runs(owner):
    for number in range(55):
        factories.run(factories.job(owner.workspace, f"job-{number:02}"), cost="0.000000001")
    job = factories.job(owner.workspace, "=HYPERLINK(1)", owner="@ada", tags={"+k": "v"})
    factories.run(job, cost=None, state="failed")
    line_by_job = {line["job"]: line for line in lines(owner)}
    assert len(line_by_job) == 56
    assert line_by_job["job-00"]["last_cost_usd"] == "0.000000001"
    line = line_by_job["'=HYPERLINK(1)"]
    assert (line["owner"], line["tags"], line["last_cost_usd"]) == ("'@ada", "'+k=v", "")
    assert (line["runs_without_price_30_days"], line["last_run_state"]) == ("1", "failed")
    assert line["url"].endswith(f"/jobs/{job.uuid}/")


def test_the_file_of_groups_has_a_line_for_each_job_in_each(full):
    cells = [
        (line["owner"], line["job"], line["runs"], line["spend_30_days_usd"])
        for line in lines(full, ("group", "owner"))
    ]
    assert cells == [
        ("ada", "mixed", "2", "4.000000000"),
        ("ada", "vision", "1", "1.000000000"),
        ("bob", "mixed", "2", "8.000000000"),
        ("grace", "vision", "1", "2.000000000"),
    ]


@pytest.mark.parametrize(
    "query",
    ["group=tag:", "group=x", "group=tag:a%00b", "owner=%00", "tag=%00=1", "tag=a.b%22%5D=$",
     "tag=%ED%A0%80=1", "group=tag:'", "page=99", "group=owner&page=99"],
)  # fmt: skip
def test_no_address_breaks_the_page_or_the_file(full, query):
    assert full.client.get(f"/jobs/?{query}").status_code == 200
    assert full.client.get(f"{reverse('dashboard:jobs_csv')}?{query}").status_code == 200


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
TAGS = st.dictionaries(TEXT | st.sampled_from(["team", "3", "$", "a.b", '"']), TEXT, max_size=4)


@given(TAGS, TAGS, TEXT)
@examples(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_database_reads_a_tag_as_python_does_whatever_is_in_it(owner, of_job, own, other):
    job = factories.job(owner.workspace, str(uuid4()), tags=of_job)
    run = factories.run(job, tags=own)
    for key in {*of_job, *own, other}:
        row = Run.objects.annotate(value=Facet(f"tag:{key}").value()).get(pk=run.pk)
        assert row.value == run.all_tags.get(key, "")


def test_nothing_of_another_workspace_is_offered_or_found(full, stranger):
    factories.run(factories.job(stranger.workspace, "mine"), owner="eve")
    for query in ([], [("group", "owner")], [("owner", "ada")], [("group", "tag:team")]):
        shown = page(stranger, *query)
        assert "vision" not in shown
        assert "bob" not in shown
        assert not [line for line in lines(stranger, *query) if line["job"] != "mine"]

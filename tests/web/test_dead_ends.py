"""A page on which something is missing leads to where it can be mended; sums lead to their runs."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone

from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import Membership
from webapp.analysis.models import LedgerEntry, Life
from webapp.runs.models import Run
from webapp.spend.axis import axis
from webapp.spend.models import Budget

CONSOLE = "django.core.mail.backends.console.EmailBackend"


def _links(page: str, words: str) -> list[str]:
    """Return where the links with these words lead to."""
    return re.findall(rf'<a[^>]*href="([^"]*)"[^>]*>\s*{words}', page)


def _followed(person, address: str) -> str:  # type: ignore[no-untyped-def]
    return person.page(address.replace("&amp;", "&").partition("#")[0])


@pytest.fixture
def unpriced(owner) -> Run:
    job = factories.job(owner.workspace, "vision/a&b.py", owner="ada", tags={"team": "x"})
    factories.run(job, cost="1.00")
    missing = ["7: its machine type is unknown, and none of your own rates fits it"]
    unnamed = factories.summary(missing=missing, instance_types=[])
    return factories.run(job, cost=None, summary=unnamed)


def test_no_price_leads_to_naming_the_machine(owner, unpriced):
    factories.node(unpriced)
    machine = reverse("runs:edit_run", args=[unpriced.pk]) + "#machine"
    for address in ("/runs/", "/jobs/", reverse("dashboard:job", args=[unpriced.job.uuid])):
        assert machine in _links(owner.page(address), "no price"), address
    page = owner.page(reverse("dashboard:run", args=[unpriced.pk]))
    assert machine in _links(page, "Name the machine")
    assert 'id="machine"' in _followed(owner, machine)


def _machine(run: Run) -> str:
    return reverse("runs:edit_run", args=[run.pk]) + "#machine"


def test_comparisons_lead_to_naming_the_machine(owner, unpriced):
    priced = unpriced.job.runs.exclude(cost_usd=None).get()
    factories.node(unpriced)
    other = factories.run(unpriced.job)
    for run in (priced, unpriced):
        factories.analysis(run)
    two = f"/compare/?a={priced.pk}&b={unpriced.pk}"
    three = f"/compare/?run={priced.pk}&run={unpriced.pk}&run={other.pk}"
    # Once where the difference isn't explained, and once in the table.
    assert _links(owner.page(two), "no price") == [_machine(unpriced)] * 2
    assert _links(owner.page(three), "no price") == [_machine(unpriced)]


def test_savings_and_recommendations_lead_to_naming_the_machine(owner, unpriced):
    unknown = dict.fromkeys(
        ("saving_low_usd", "saving_usd", "saving_high_usd", "monthly_saving_usd")
    )
    row = factories.recommendation(unpriced, **unknown)
    own = [f"/recommendations/{row.uuid}/", "/recommendations/", "/"]
    own.append(reverse("dashboard:job", args=[unpriced.job.uuid]))
    for address in own:
        assert _machine(unpriced) in _links(owner.page(address), "no price"), address
    for address in ("/savings/", "/recommendations/", "/"):
        lists = [each for each in _links(owner.page(address), "no price") if "price=none" in each]
        assert lists, address
        assert str(unpriced) in html.unescape(_followed(owner, lists[0]))


def test_failures_lead_to_naming_the_machine(owner, unpriced):
    node, now = factories.node(unpriced), timezone.now()
    span = {"began_at": now - timedelta(minutes=9), "ended_at": now}
    Life.objects.create(run=unpriced, number=0, node=node, ending="oom", lost_us=1, **span)
    of_job = f"/spend/failures/?job={unpriced.job.uuid}"
    assert _machine(unpriced) in _links(owner.page(of_job), "no price")
    for address in (of_job, "/spend/failures/"):
        lists = [each for each in _links(owner.page(address), "no price") if "price=none" in each]
        assert lists, address
        for each in lists:
            assert str(unpriced) in html.unescape(_followed(owner, each))


def test_budgets_lead_to_the_runs_that_they_can_not_count(owner, unpriced):
    own = {"workspace": owner.workspace, "amount_usd": 9}
    Budget.objects.create(**own, job=unpriced.job)
    Budget.objects.create(**own, tag_key="team", tag_value="x")
    Budget.objects.create(**own)
    links = _links(owner.page("/budgets/"), "1 run without a price")
    assert len(links) == 3
    for each in links:
        assert str(unpriced) in html.unescape(_followed(owner, each))


def test_ledgers_lead_to_naming_the_machine(owner, unpriced):
    node = factories.node(unpriced)
    entry = {"node": node, "label": "data_stall", "microseconds": 10**9}
    LedgerEntry.objects.create(run=unpriced, **entry)
    of_run = owner.page(reverse("dashboard:run", args=[unpriced.pk]))
    assert _machine(unpriced) in _links(of_run.partition('id="ledger"')[2], "no price")
    of_job = owner.page(reverse("dashboard:job", args=[unpriced.job.uuid]))
    (*_, each) = _links(of_job.partition('id="ledger"')[2].partition("</section>")[0], "no price")
    assert str(unpriced) in html.unescape(_followed(owner, each))


def test_viewers_who_may_not_name_it_get_no_link(owner, unpriced):
    Membership.objects.filter(user=owner.user).update(role=Membership.VIEWER)
    page = owner.page("/runs/")
    assert "no price" in page
    assert "#machine" not in page


def test_counts_of_runs_without_a_price_lead_to_these_runs(owner, unpriced):
    pages = ("/spend/", "/jobs/", reverse("dashboard:job", args=[unpriced.job.uuid]))
    for address in pages:
        (link, *_) = _links(owner.page(address), "1 without a price")
        listed = _followed(owner, link)
        assert str(unpriced) in listed.replace("&amp;", "&")
        assert len(re.findall(r'name="run"', listed)) == 1, address


@pytest.mark.parametrize(
    ("by", "label"), [("job", "vision/a&amp;b.py"), ("owner", "ada"), ("tag", "x")]
)
def test_a_line_of_the_spend_leads_to_its_runs(owner, unpriced, by, label):
    other = factories.job(owner.workspace, "other", owner="eve", tags={"team": "y"})
    factories.run(other)
    long_ago = datetime(2024, 5, 3, tzinfo=UTC)
    factories.run(unpriced.job, started_at=long_ago)

    (link,) = _links(owner.page(f"/spend/?by={by}"), label)

    assert len(re.findall(r'name="run"', _followed(owner, link))) == 2


def test_days_of_the_month_lead_to_their_runs_and_have_axes(owner):
    run = factories.run(factories.job(owner.workspace), started_at=timezone.now(), seconds=60)
    factories.node(run)
    factories.costed(run)
    today = f"/runs/?day={timezone.now():%Y-%m-%d}"
    for address in ("/", "/spend/"):
        page = owner.page(address)
        assert f'href="{today}"' in page
        assert "plot-money" in page
    assert str(run) in owner.page(today)


def test_an_axis_ends_at_a_round_amount():
    for most, top in (("0.17", "0.2"), ("1", "1"), ("4.01", "5"), ("51", "100"), ("0", "1")):
        assert axis(Decimal(most), []).top_usd == Decimal(top), most


@pytest.mark.parametrize("backend", ["", CONSOLE])
def test_an_invitation_says_that_it_was_mailed_only_if_it_was(owner, settings, mailoutbox, backend):
    settings.EMAIL_BACKEND = backend or settings.EMAIL_BACKEND
    data = {"email": "new@example.org", "role": Membership.MEMBER}

    page = read_page(owner.client.post(reverse("accounts:members"), data))

    assert len(mailoutbox) == (0 if backend else 1)
    assert ("The invitation was mailed" in page) is not bool(backend)
    assert ("was not mailed" in page) is bool(backend)

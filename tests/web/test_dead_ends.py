"""Where something is missing, the page leads to where it can be mended; sums lead to their runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone

from tests.web import factories
from webapp.accounts.models import Membership
from webapp.runs.models import Run
from webapp.spend.axis import axis

CONSOLE = "django.core.mail.backends.console.EmailBackend"


def _links(html: str, words: str) -> list[str]:
    """Where the links with these words lead to."""
    return re.findall(rf'<a[^>]*href="([^"]*)"[^>]*>\s*{words}', html)


def _followed(person, address: str) -> str:  # type: ignore[no-untyped-def]
    return person.page(address.replace("&amp;", "&").partition("#")[0])


@pytest.fixture
def unpriced(owner) -> Run:
    job = factories.job(owner.workspace, "vision/a&b.py", owner="ada", tags={"team": "x"})
    factories.run(job, cost="1.00")
    missing = ["7: no price for c5.lrage"]
    return factories.run(job, cost=None, summary=factories.summary(missing=missing))


def test_no_price_leads_to_naming_the_machine(owner, unpriced):
    factories.node(unpriced)
    machine = reverse("runs:edit_run", args=[unpriced.pk]) + "#machine"
    for address in ("/runs/", "/jobs/", reverse("dashboard:job", args=[unpriced.job.uuid])):
        assert machine in _links(owner.page(address), "no price"), address
    page = owner.page(reverse("dashboard:run", args=[unpriced.pk]))
    assert machine in _links(page, "Name the machine")
    assert 'id="machine"' in _followed(owner, machine)


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

    page = owner.client.post(reverse("accounts:members"), data).content.decode()

    assert len(mailoutbox) == (0 if backend else 1)
    assert ("The invitation was mailed" in page) is not bool(backend)
    assert ("was not mailed" in page) is bool(backend)

"""Pages that sum money say when their prices were last confirmed, if that is long ago."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from advisor.pricing.staleness import UsedPrice, old_prices
from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import Membership
from webapp.analysis.models import CostPart
from webapp.analysis.selectors.old_prices import old_prices_of
from webapp.prices import sources
from webapp.prices.models import Price, PriceRefresh
from webapp.runs.models import Run

COMMAND = "manage.py refresh_prices --catalogue"
SEEN = timezone.now() - timedelta(days=100)


@pytest.fixture
def run(owner) -> Run:
    made = factories.run(factories.job(owner.workspace))
    factories.node(made)
    return factories.costed(made)


def confirmed(when: datetime | None, **more: object) -> None:
    Price.objects.filter(source="AWS price list").update(seen_at=when, **more)


def pages(run: Run) -> list[str]:
    other = factories.run(run.job)
    return [
        reverse("dashboard:run", args=[run.pk]),
        reverse("dashboard:job", args=[run.job.uuid]),
        reverse("dashboard:jobs"),
        f"{reverse('dashboard:jobs')}?group=owner",
        reverse("spend:spend"),
        f"{reverse('spend:spend')}?by=month",
        reverse("spend:budgets"),
        f"{reverse('dashboard:compare')}?a={other.pk}&b={run.pk}",
    ]


def test_each_page_that_sums_old_prices_says_so_with_the_command_that_refreshes_them(owner, run):
    confirmed(SEEN)
    for address in pages(run):
        page = owner.page(address)
        assert f"List price of {SEEN.date()}" in page, address
        assert page.count(COMMAND) == 1, address


UPDATE = "/prices/update/"


def test_the_line_is_in_the_footer_with_a_button_for_owners(owner, run):
    confirmed(SEEN)
    for address in pages(run):
        footer = owner.page(address).partition("<footer")[2]
        assert COMMAND in footer, address
        assert f'action="{UPDATE}"' in footer, address
        assert "Update prices" in footer, address
    Membership.objects.update(role=Membership.MEMBER)
    assert "Update prices" not in owner.page(pages(run)[0])
    assert owner.client.post(UPDATE).status_code == 403


def test_the_button_queues_the_parts_that_are_due(owner, monkeypatch):
    monkeypatch.setattr(sources, "askable", list)
    assert COMMAND in read_page(owner.client.post(UPDATE, follow=True))
    assert PriceRefresh.objects.count() == 0
    monkeypatch.setattr(sources, "askable", lambda: ["ec2"])
    assert "updated in the background" in read_page(owner.client.post(UPDATE, follow=True))
    assert PriceRefresh.objects.exists()
    assert all(row.due_at <= timezone.now() for row in PriceRefresh.objects.all())


@pytest.mark.parametrize(
    ("days", "more"),
    [
        (89, {}),
        (100, {"valid_to": timezone.now() + timedelta(days=1)}),
    ],
)
def test_no_page_says_so_of_a_price_that_was_confirmed_or_whose_end_is_known(
    owner, run, days, more
):
    confirmed(timezone.now() - timedelta(days=days), **more)
    for address in pages(run):
        assert COMMAND not in owner.page(address), address


def test_an_own_rate_is_never_old(owner, run):
    confirmed(SEEN, workspace=owner.workspace)
    assert old_prices_of(CostPart.objects.all()) is None


def test_an_old_run_at_a_price_of_its_time_is_not_marked(owner, run):
    confirmed(SEEN)
    CostPart.objects.update(day=(SEEN + timedelta(days=90)).date())
    assert old_prices_of(CostPart.objects.all()) is None
    CostPart.objects.update(day=(SEEN + timedelta(days=91)).date())
    assert old_prices_of(CostPart.objects.all()) is not None


def test_it_takes_one_query_for_any_number_of_costs(owner, run):
    confirmed(SEEN)
    for _ in range(5):
        more = factories.run(run.job)
        factories.node(more)
        factories.costed(more)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        assert old_prices_of(CostPart.objects.all()) is not None
    assert len(asked) == 1


def test_a_workspace_hears_nothing_of_anothers_prices(owner, stranger, run):
    confirmed(SEEN)
    made = factories.run(factories.job(stranger.workspace))
    factories.node(made)
    assert COMMAND not in stranger.page(reverse("dashboard:jobs"))
    assert COMMAND not in stranger.page(reverse("spend:spend"))


DAY = date(2026, 11, 1)


def used(option: str, ago: int) -> UsedPrice:
    return UsedPrice(option, datetime(2026, 11, 1, tzinfo=UTC) - timedelta(days=ago), DAY)


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        ([used("on_demand", 91)], "List price of 2026-08-02"),
        ([used("spot", 8)], "Spot price of 2026-10-24"),
        (
            [used("on_demand", 91), used("on_demand", 200)],
            "List prices of 2026-04-15 to 2026-08-02",
        ),
        ([used("on_demand", 91), used("spot", 91)], "List and spot prices of 2026-08-02"),
        ([used("on_demand", 90), used("spot", 7)], None),
        ([], None),
    ],
)
def test_it_names_the_dates_of_the_old_prices(prices, words):
    old = old_prices(prices)
    assert (old and old.words) == words

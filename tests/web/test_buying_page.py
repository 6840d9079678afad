"""The page of the advice settings, and what the run's page says of them."""

from __future__ import annotations

from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import AuditEntry, Membership
from webapp.analysis.models import Analysis

PAGE = "/settings/advice/"


def test_an_owner_allows_ways_and_regions(owner) -> None:
    assert "checked" not in owner.page(PAGE)
    run = factories.run(factories.job(owner.workspace))
    form = {"may_buy": ["spot"], "other_regions": "us-west-2, eu-west-1"}
    answer = read_page(owner.client.post(PAGE, form, follow=True))
    assert "Saved." in answer
    assert 'id="may-buy-spot" checked' in answer
    assert 'value="eu-west-1, us-west-2"' in answer
    owner.workspace.refresh_from_db()
    assert owner.workspace.may_buy == ["spot"]
    entry = AuditEntry.objects.get(action="advice.changed")
    assert entry.actor == owner.user
    assert entry.change["other_regions"] == [[], ["eu-west-1", "us-west-2"]]
    assert Analysis.objects.filter(run=run, wanted__gt=0).exists()


def test_a_region_without_prices_is_refused_with_those_that_have_some(owner) -> None:
    page = read_page(owner.client.post(PAGE, {"other_regions": "mars-1"}))
    assert "There is no price in &#x27;mars-1&#x27;." in page
    assert "us-west-2" in page
    assert 'aria-invalid="true"' in page
    assert 'value="mars-1"' in page
    owner.workspace.refresh_from_db()
    assert owner.workspace.other_regions == []


def test_others_see_it_and_cannot_change_it(owner) -> None:
    owner.user.memberships.update(role=Membership.MEMBER)
    assert "Only owners can change" in owner.page(PAGE)
    assert owner.client.post(PAGE, {"may_buy": ["spot"]}).status_code == 403


def test_a_run_tells_what_was_not_considered(owner) -> None:
    run = factories.run(factories.job(owner.workspace))
    factories.node(run)
    factories.judgement(run, state="passed")
    page = owner.page(f"/runs/{run.pk}/")
    assert "Not considered: spot, commitments (reserved), other regions." in page
    owner.workspace.may_buy = ["spot", "reserved"]
    owner.workspace.other_regions = ["us-west-2"]
    owner.workspace.save()
    assert "Not considered" not in owner.page(f"/runs/{run.pk}/")

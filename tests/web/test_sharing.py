"""Read-only links: one run, report or comparison, with an end, and nothing else."""

from __future__ import annotations

import logging
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.html import read_page
from tests.web import factories, walk
from webapp.accounts.models import AuditEntry, Membership, Workspace
from webapp.http.log_format import JsonLineFormatter, TextLineFormatter
from webapp.runs.models import Run
from webapp.sharing.models import ShareLink

SETTINGS = "/settings/shared/"


@pytest.fixture
def run(owner) -> Run:
    job = factories.job(owner.workspace)
    for _ in range(2):
        made = factories.run(job)
        factories.node(made)
        factories.costed(made)
    return made


def earlier_of(run: Run) -> Run:
    return Run.objects.filter(job=run.job).exclude(pk=run.pk).get()


def share(owner, run: Run, kind: str = "run", days: str = "30") -> str:
    """Return the path of a new link, created as a person does."""
    address = reverse("sharing:share_run", args=[run.pk])
    if kind == "comparison":
        query = f"a={earlier_of(run).pk}&b={run.pk}"
        address = f"{reverse('sharing:share_comparison')}?{query}"
    assert "Create link" in owner.page(address)
    page = read_page(owner.client.post(address, {"kind": kind, "days": days}))
    found = re.search(r'data-copied="link">https?://[^/]+(/shared/[\w-]+/)<', page)
    assert found, page
    return found[1]


def data_of(path: str, kind: str) -> list[str]:
    of_kind = {"run": ["charts.json"], "comparison": ["series-a.json", "series-b.json"]}
    return [f"{path}{name}?names=host.cpu_busy_pct" for name in of_kind.get(kind, [])]


KINDS = ["run", "report", "comparison"]


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_has_the_link_sees_what_it_shows(owner, run, anonymous, kind):
    path = share(owner, run, kind)
    answer = anonymous.get(path)
    assert answer.status_code == 200
    page = read_page(answer)
    assert run.job.name in page
    assert f"#{run.number}" in page
    assert 'name="robots" content="noindex, nofollow"' in page
    assert answer["X-Robots-Tag"] == "noindex, nofollow"
    assert answer["Referrer-Policy"] == "no-referrer"
    for address in data_of(path, kind):
        assert anonymous.get(address).status_code == 200


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("visitor", ["anonymous", "owner"])
def test_a_shared_page_leads_nowhere_inside(owner, run, anonymous, kind, visitor):
    run.billed_usd, run.billed_by, run.billed_at = 3, owner.user.email, timezone.now()
    run.save()
    path = share(owner, run, kind)
    page = (owner.client if visitor == "owner" else anonymous).get(path).content.decode()
    inside = re.findall(r'(?:href|src|action|data-[\w-]+)="(/[^"]*)"', page)
    own = (path, "/static/")
    assert [address for address in inside if not address.startswith(own)] == []
    assert [a for a in re.findall(r'"address": "([^"]+)"', page) if not a.startswith(path)] == []
    assert "<form" not in page
    assert owner.user.email not in page
    assert "testserver" not in page


def test_only_a_digest_is_kept_and_no_log_has_the_secret(owner, run, caplog):
    path = share(owner, run)
    secret = path.split("/")[2]
    assert all(secret not in str(row) for row in ShareLink.objects.values_list())
    assert all(secret not in str(row) for row in AuditEntry.objects.values_list())
    assert secret not in owner.page(SETTINGS)
    with caplog.at_level(logging.DEBUG):
        Client().get(f"{path}charts.json?from=x")
        Client().get(f"{path}nothing/")
    told = [record for record in caplog.records if secret in str(vars(record))]
    assert told, "Django logs the address of a page that isn't there"
    for line in (TextLineFormatter(), JsonLineFormatter()):
        assert all(secret not in line.format(record) for record in told)


CLOSED = "This link opens nothing"


def is_closed(path: str, kind: str = "run") -> bool:
    pages = [Client().get(address) for address in (path, *data_of(path, kind))]
    assert len({page.status_code for page in pages}) == 1
    return pages[0].status_code == 410 and CLOSED in read_page(pages[0])


@pytest.mark.parametrize("kind", KINDS)
def test_it_ends_when_it_says(owner, run, kind):
    path = share(owner, run, kind, days="7")
    left = ShareLink.objects.get().expires_at - timezone.now()
    assert timedelta(days=6) < left <= timedelta(days=7)
    assert not is_closed(path, kind)
    ShareLink.objects.update(expires_at=timezone.now())
    assert is_closed(path, kind)
    assert "Ended" in owner.page(SETTINGS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_revoked_link_opens_nothing(owner, run, kind):
    path, other = share(owner, run, kind), share(owner, run)
    link = ShareLink.objects.get(kind=kind) if kind != "run" else ShareLink.objects.first()
    assert link is not None
    owner.client.post(f"{SETTINGS}{link.uuid}/revoke/")
    assert [is_closed(path, kind), is_closed(other)] == [True, False]
    assert "Revoked" in owner.page(SETTINGS)
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["share_link.created", "share_link.created", "share_link.revoked"]


def test_owners_switch_sharing_off_for_all_links(owner, run):
    path = share(owner, run)
    owner.client.post(f"{SETTINGS}allowed/")
    assert is_closed(path)
    address = reverse("sharing:share_run", args=[run.pk])
    assert "Create link" not in owner.page(address)
    assert "data-copied" not in read_page(owner.client.post(address, {"kind": "run", "days": "7"}))
    assert ShareLink.objects.count() == 1
    owner.client.post(f"{SETTINGS}allowed/", {"allows_sharing": "on"})
    assert not is_closed(path)


def test_only_owners_switch_and_only_owners_and_its_creator_revoke(owner, run):
    share(owner, run)
    link = ShareLink.objects.get()
    ShareLink.objects.update(created_by=None)
    Membership.objects.update(role="member")
    assert owner.client.post(f"{SETTINGS}allowed/").status_code == 403
    assert owner.client.post(f"{SETTINGS}{link.uuid}/revoke/").status_code == 403
    ShareLink.objects.update(created_by=owner.user)
    assert owner.client.post(f"{SETTINGS}{link.uuid}/revoke/").status_code == 302


def test_viewers_share_nothing(owner, run):
    Membership.objects.update(role="viewer")
    address = reverse("sharing:share_run", args=[run.pk])
    assert owner.client.post(address, {"kind": "run", "days": "7"}).status_code == 403
    assert address not in owner.page(reverse("dashboard:run", args=[run.pk]))


def test_nobody_shares_or_revokes_what_is_anothers(owner, stranger, run):
    address = reverse("sharing:share_run", args=[run.pk])
    form = {"kind": "run", "days": "7"}
    assert stranger.client.post(address, form).status_code == 404
    own = factories.run(factories.job(stranger.workspace))
    compared = f"{reverse('sharing:share_comparison')}?a={own.pk}&b={run.pk}"
    assert stranger.client.post(compared, form | {"kind": "comparison"}).status_code == 404
    assert ShareLink.objects.count() == 0
    path = share(owner, run)
    link = ShareLink.objects.get()
    assert stranger.client.post(f"{SETTINGS}{link.uuid}/revoke/").status_code == 404
    assert not is_closed(path)
    assert run.job.name not in stranger.page(SETTINGS)


@pytest.mark.parametrize(
    ("form", "kept"),
    [({"kind": "comparison", "days": "7"}, 0), ({"kind": "run", "days": "9999"}, 0), ({}, 0)],
)
def test_a_form_that_asks_for_something_else_creates_nothing(owner, run, form, kept):
    owner.client.post(reverse("sharing:share_run", args=[run.pk]), form)
    assert ShareLink.objects.count() == kept


def test_the_link_of_a_deleted_run_or_workspace_opens_nothing(owner, run):
    of_run, of_both = share(owner, run), share(owner, run, "comparison")
    Run.objects.filter(pk=earlier_of(run).pk).update(deleted_at=timezone.now())
    assert [is_closed(of_run), is_closed(of_both, "comparison")] == [False, True]
    Workspace.objects.update(deleted_at=timezone.now())
    assert is_closed(of_run)


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_gives_only_the_data_of_its_kind(owner, run, kind):
    path = share(owner, run, kind)
    for other in KINDS:
        for address in data_of(path, other):
            assert Client().get(address).status_code == (200 if other == kind else 410)
    assert Client().get(f"{path}series-c.json?names=host.cpu_busy_pct").status_code == 410


def test_every_other_address_refuses_the_secret(owner, run):
    secret = share(owner, run).split("/")[2]
    bearer = Client(headers={"Authorization": f"Bearer {secret}"})
    inside = [
        (name, route)
        for name, route in walk.pages().items()
        if walk.AUDIENCES[name].get("get") not in (None, walk.EVERYBODY)
    ]
    assert len(inside) > 50
    for name, route in inside:
        address = re.sub(r"<uuid:run_id>", str(run.pk), f"/{route}")
        address = re.sub(r"<(\w+:)?\w+>", secret, address)
        answer = bearer.get(f"{address}?secret={secret}&token={secret}")
        assert answer.status_code in (302, 404), name
        assert answer.status_code == 404 or "/sign-in/" in answer["Location"], name
    for path in (f"runs/{run.pk}", "jobs", "usage", f"cost?run={run.pk}"):
        assert bearer.get(f"/api/v1/{path}").status_code == 401


def test_it_takes_two_clicks_from_the_run(owner, run):
    page = owner.page(reverse("dashboard:run", args=[run.pk]))
    address = reverse("sharing:share_run", args=[run.pk])
    assert f'href="{address}">Share</a>' in page
    form = owner.page(address)
    chosen = re.findall(r'value="(\w+)"\s+selected', form)
    assert chosen == ["run", "30"]

"""Saved views of the list of runs: of a person, and of a workspace."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import Membership, User
from webapp.dashboard.models import SavedView
from webapp.dashboard.views.saved_views import MOST_VIEWS

QUERY = "filter=lr+%3D+0.1&column=param.lr&sort=-cost"


def _save(client: Client, name: str = "Sweep", query: str = QUERY, **more: str):  # type: ignore[no-untyped-def]
    form = {"name": name, "query": query, **more}
    return client.post(reverse("dashboard:save_view"), form, follow=True)


def _remove(client: Client, name: str = "Sweep", **more: str):  # type: ignore[no-untyped-def]
    return client.post(reverse("dashboard:delete_view"), {"name": name, **more}, follow=True)


def _lists(client: Client) -> str:
    return read_page(client.get("/runs/"))


def _colleague(owner, role: str) -> Client:  # type: ignore[no-untyped-def]
    user = User.objects.create_user(f"{role}@example.org")
    Membership.objects.create(workspace=owner.workspace, user=user, role=role)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def run(owner):
    return factories.run(factories.job(owner.workspace), parameters={"lr": 0.1})


def test_a_view_opens_the_list_that_was_saved(owner, run):
    page = read_page(_save(owner.client, query=f"{QUERY}&page=3&value=7"))

    assert "View “Sweep” saved for you." in page
    assert "<h1>" in page
    assert f'href="/runs/?{QUERY.replace("&", "&amp;")}"' in _lists(owner.client)
    assert str(run.pk) in read_page(owner.client.get(f"/runs/?{QUERY}"))


def test_saving_again_under_a_name_replaces_the_view(owner, run):
    _save(owner.client)
    _save(owner.client, query="sort=cost")

    assert SavedView.objects.get().query == "sort=cost"


def test_a_persons_view_is_only_theirs(owner, run):
    _save(owner.client)
    colleague = _colleague(owner, Membership.OWNER)

    assert "Sweep" not in _lists(colleague)
    _remove(colleague)
    assert SavedView.objects.count() == 1
    _remove(owner.client)
    assert not SavedView.objects.exists()


def test_a_view_of_the_workspace_is_everybodys_and_members_remove_it(owner, run):
    _save(owner.client, is_shared="on")
    viewer, member = (_colleague(owner, role) for role in (Membership.VIEWER, Membership.MEMBER))

    assert "Sweep" in _lists(viewer)
    assert _remove(viewer, is_shared="on").status_code == 403
    assert _save(viewer, "Other", is_shared="on").status_code == 403
    assert _save(viewer, "Own").status_code == 200
    assert "View “Sweep” removed" in read_page(_remove(member, is_shared="on"))
    assert list(SavedView.objects.values_list("name", flat=True)) == ["Own"]


def test_views_of_another_workspace_do_not_exist(owner, stranger, run):
    _save(owner.client, is_shared="on")
    view = SavedView.objects.get()

    assert "Sweep" not in _lists(stranger.client)
    _remove(stranger.client, is_shared="on")
    _save(stranger.client, query="q=theirs", is_shared="on")
    view.refresh_from_db()
    assert view.query == QUERY


@pytest.mark.parametrize(
    ("name", "query", "fix"),
    [
        ("", QUERY, "enter a name"),
        ("x" * 81, QUERY, "at most 80 characters"),
        ("Long", "filter=" + "x" * 5000, "Remove conditions or columns"),
    ],
)
def test_a_view_that_can_not_be_saved_says_why(owner, run, name, query, fix):
    assert fix in read_page(_save(owner.client, name, query))
    assert not SavedView.objects.exists()


def test_there_are_at_most_so_many_views(owner, run):
    SavedView.objects.bulk_create(
        SavedView(workspace=owner.workspace, user=owner.user, name=str(n))
        for n in range(MOST_VIEWS)
    )
    assert "Remove one of them" in read_page(_save(owner.client))
    assert "saved for you" in read_page(_save(owner.client, "7"))

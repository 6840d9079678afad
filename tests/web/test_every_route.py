"""Every door, as everybody who might try it. The walk itself is in `walk`."""

from __future__ import annotations

import pytest
from django.http import HttpRequest, HttpResponse
from django.urls import path

from tests.web import walk
from webapp import urls
from webapp.accounts.access import open_to_everybody, open_to_viewers
from webapp.accounts.models import Membership, Token, User, Workspace
from webapp.runs.models import Run


@pytest.fixture
def world(db) -> walk.World:
    return walk.world()


def test_every_route_says_who_it_is_for():
    pages, operations = walk.pages(), walk.operations()
    print(f"{len(pages)} pages and {len(operations)} operations walked")  # noqa: T201
    assert set(pages) == set(walk.AUDIENCES)
    assert operations == set(walk.SCOPES)


@pytest.mark.parametrize("name", sorted(walk.AUDIENCES))
def test_a_page_is_for_whom_it_says(world, name):
    assert walk.page_problems(world, name, walk.pages()[name]) == []


@pytest.mark.parametrize(("method", "path"), sorted(walk.SCOPES))
def test_an_operation_is_for_the_tokens_that_it_says(world, method, path):
    assert walk.operation_problems(world, method, path) == []


@pytest.mark.parametrize("person", ["member", "emigrant"])
def test_a_removed_member_gets_no_answer(world, person):
    """The emigrant is in another workspace, too, and stays signed in there."""
    if person == "emigrant":
        elsewhere = Workspace.objects.get(name="Elsewhere")
        world.people[person] = walk._person(
            person, (world.workspace, Membership.MEMBER), (elsewhere, Membership.OWNER)
        )
    user = User.objects.get(email=f"{person}@example.org")
    tokens = [
        Token.make(world.workspace, scope, [scope], created_by=user)[1]
        for scope in walk.TOKEN_SCOPES
    ]
    client = world.people[person]
    client.post("/workspace/", {"workspace": world.workspace.uuid})
    assert client.get("/settings/members/").status_code == 200
    held = Membership.objects.get(user=user, workspace=world.workspace)
    world.people["owner"].post(f"/settings/members/{held.pk}/remove/")
    assert walk.removal_problems(world, person, tokens) == []
    assert client.get("/account/").status_code == (200 if person == "emigrant" else 302)


def forgets_its_scope(_request: HttpRequest, run_id: str) -> HttpResponse:
    return HttpResponse(Run.objects.get(pk=run_id).job.name)


@open_to_everybody
def forgets_to_ask_who(_request: HttpRequest, run_id: str) -> HttpResponse:
    return HttpResponse(Run.objects.get(pk=run_id).state)


@open_to_viewers
def lets_viewers_change(request: HttpRequest, run_id: str) -> HttpResponse:
    Run.objects.filter(pk=run_id).update(state="stopped")
    return HttpResponse(request.method or "")


@pytest.mark.parametrize(
    ("view", "told"),
    [
        (forgets_its_scope, "as outsider: was sent what belongs to the workspace"),
        (forgets_to_ask_who, "as anonymous: got 200 instead of 302"),
        (lets_viewers_change, "POST broken as viewer: got 200 instead of 403"),
    ],
)
def test_the_walk_is_red_when_a_view_forgets_something(world, monkeypatch, view, told):
    broken = type("urls", (), {})()
    broken.urlpatterns = [*urls.urlpatterns, path("broken/<uuid:run_id>/", view, name="broken")]
    monkeypatch.setitem(walk.AUDIENCES, "broken", {"get": walk.VIEWERS, "post": walk.MEMBERS})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.conf.settings.ROOT_URLCONF", broken)
        problems = walk.page_problems(world, "broken", "broken/<uuid:run_id>/")
    assert any(told in problem for problem in problems), problems


def test_a_route_that_the_table_does_not_name_is_noticed(monkeypatch):
    monkeypatch.delitem(walk.AUDIENCES, "dashboard:run")
    with pytest.raises(AssertionError):
        test_every_route_says_who_it_is_for()

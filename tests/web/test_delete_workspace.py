"""A workspace is deleted when its name is typed, and can be restored for a while."""

from __future__ import annotations

from django.test import Client
from django.urls import reverse

from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import AuditEntry, Membership, Token, User

PAGE = "/settings/delete/"


def test_another_name_deletes_nothing(owner):
    answer = owner.client.post(PAGE, {"name": "Something else"})
    assert "is not the workspace&#x27;s name" in read_page(answer)
    owner.workspace.refresh_from_db()
    assert owner.workspace.deleted_at is None


def test_nobody_gets_in_any_more_and_its_tokens_are_refused(owner):
    token = Token.make(owner.workspace, "reader", [Token.READ])[1]
    factories.job(owner.workspace, "vision/train.py")
    read = {"Authorization": f"Bearer {token}"}
    assert Client().get("/api/v1/jobs", headers=read).status_code == 200
    owner.client.post(PAGE, {"name": owner.workspace.name})
    assert "No workspace" in read_page(owner.client.get("/", follow=True))
    assert Client().get("/api/v1/jobs", headers=read).status_code == 401


def test_an_owner_takes_it_back_with_everything(owner):
    factories.job(owner.workspace, "vision/train.py")
    deleted = owner.client.post(PAGE, {"name": owner.workspace.name}, follow=True)
    assert "permanently deleted on" in read_page(deleted)
    restore = reverse("retention:restore_workspace", args=[owner.workspace.uuid])
    assert owner.client.post(restore, follow=True).status_code == 200
    assert "vision/train.py" in owner.page("/jobs/")
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["workspace.deleted", "workspace.restored"]


def test_a_member_does_not_take_it_back(owner):
    owner.client.post(PAGE, {"name": owner.workspace.name})
    member = User.objects.create_user("member@example.org")
    Membership.objects.create(workspace=owner.workspace, user=member, role=Membership.MEMBER)
    client = Client()
    client.force_login(member)
    restore = reverse("retention:restore_workspace", args=[owner.workspace.uuid])
    assert client.post(restore).status_code == 404
    assert owner.workspace.name not in read_page(client.get("/deleted-workspaces/"))

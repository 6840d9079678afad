"""The members of a workspace: invited, joined, changed, gone."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.core import mail
from django.test import Client
from django.utils import timezone

from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import AuditEntry, Invitation, Membership, User

PAGE = "/settings/members/"
JOIN = {"name": "Ben", "password": "a long enough secret", "again": "a long enough secret"}


def invite(owner, email: str = "ben@example.org", role: str = "viewer") -> str:  # type: ignore[no-untyped-def]
    """Invite somebody, and return the path of the mailed link."""
    mail.outbox.clear()
    owner.client.post(PAGE, {"email": email, "role": role})
    (letter,) = mail.outbox
    assert letter.to == [email]
    return urlsplit(next(w for w in letter.body.split() if "/invitation/" in w)).path


def roles(owner) -> dict[str, str]:  # type: ignore[no-untyped-def]
    return dict(owner.workspace.memberships.values_list("user__email", "role"))


def test_a_new_person_makes_an_account_and_is_in(owner, anonymous):
    link = invite(owner)
    assert "as viewer" in read_page(anonymous.get(link))
    assert anonymous.post(link, JOIN).status_code == 302
    assert roles(owner) == {"ada@example.org": "owner", "ben@example.org": "viewer"}
    assert "Vision team" in read_page(anonymous.get("/"))
    assert Client().get(link).status_code == 410


def test_whoever_has_an_account_signs_in_to_join(owner, stranger, anonymous):
    link = invite(owner, "eve@example.org", "member")
    assert "You already have an account with this email address" in read_page(anonymous.get(link))
    assert anonymous.post(link, JOIN).status_code == 200
    assert "eve@example.org" not in roles(owner)
    assert "Join" in stranger.page(link)
    stranger.client.post(link)
    assert roles(owner)["eve@example.org"] == "member"


def test_a_link_in_other_hands_is_worth_nothing(owner, stranger):
    link = invite(owner)
    assert stranger.client.get(link).status_code == 403
    assert stranger.client.post(link).status_code == 403
    assert set(roles(owner)) == {"ada@example.org"}


def test_an_expired_withdrawn_or_renewed_link_is_dead(owner, anonymous):
    first = invite(owner)
    second = invite(owner)
    assert anonymous.get(first).status_code == 410
    assert anonymous.get(second).status_code == 200
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert anonymous.post(second, JOIN).status_code == 410
    third = invite(owner)
    invitation = Invitation.objects.get()
    owner.client.post(f"/settings/invitations/{invitation.uuid}/withdraw/")
    assert anonymous.post(third, JOIN).status_code == 410
    assert User.objects.filter(email="ben@example.org").count() == 0


def test_only_the_digest_of_a_link_is_kept(owner):
    secret = invite(owner).rstrip("/").rpartition("/")[2]
    kept = Invitation.objects.values_list()[0]
    assert all(secret not in str(value) for value in kept)


def test_a_member_is_not_invited_again(owner):
    page = owner.client.post(PAGE, {"email": "ADA@example.org", "role": "viewer"})
    assert "is a member already" in read_page(page)


def test_a_hostile_name_changes_no_header_of_the_mail(owner):
    owner.user.name = "Ada\r\nBcc: all@example.org"
    owner.user.save()
    owner.workspace.name = "Team\nX-Evil: 1"
    owner.workspace.save()
    invite(owner)
    message = mail.outbox[0].message()
    assert "Bcc" not in message
    assert "X-Evil" not in message
    assert "\n" not in message["Subject"]


def test_the_last_owner_stays(owner):
    held = owner.workspace.memberships.get()
    page = read_page(owner.client.post(f"{PAGE}leave/", follow=True))
    assert "A workspace needs an owner" in page
    assert owner.client.post(f"{PAGE}{held.pk}/remove/")["Location"] == f"{PAGE}leave/"
    owner.client.post(f"{PAGE}{held.pk}/role/", {"role": "viewer"})
    assert roles(owner) == {"ada@example.org": "owner"}


def test_roles_change_and_people_go_and_all_is_written_down(owner):
    other = factories.member(email="ben@example.org")
    held = Membership.objects.create(workspace=owner.workspace, user=other, role="viewer")
    owner.client.post(f"{PAGE}{held.pk}/role/", {"role": "owner"})
    assert roles(owner)["ben@example.org"] == "owner"
    owner.client.post(f"{PAGE}{held.pk}/role/", {"role": "emperor"})
    assert roles(owner)["ben@example.org"] == "owner"
    owner.client.post(f"{PAGE}{held.pk}/remove/")
    assert set(roles(owner)) == {"ada@example.org"}
    told = AuditEntry.objects.order_by("pk").values_list("action", "subject", "change")
    assert list(told) == [
        ("member.changed", "ben@example.org", {"role": ["viewer", "owner"]}),
        ("member.removed", "ben@example.org", {}),
    ]


def test_leaving_ends_the_access_at_once(owner, stranger):
    Membership.objects.create(workspace=owner.workspace, user=stranger.user, role="member")
    stranger.client.post("/workspace/", {"workspace": owner.workspace.uuid})
    assert "Vision team" in stranger.page("/")
    stranger.client.post(f"{PAGE}leave/")
    stranger.page("/")
    assert "Vision team" not in stranger.page("/")


@pytest.mark.parametrize("role", ["viewer", "member"])
def test_who_is_no_owner_sees_no_way_to_change_people(owner, role):
    Membership.objects.update(role=role)
    page = owner.page(PAGE)
    assert "Invite" not in page
    assert "Remove" not in page


def test_a_new_workspace_belongs_to_its_maker(owner):
    page = read_page(owner.client.post("/workspace/new/", {"name": "Speech"}, follow=True))
    assert "Speech" in page
    assert Membership.objects.get(workspace__name="Speech").role == "owner"


def test_the_settings_of_a_workspace_are_checked_and_written_down(owner):
    form = {"name": "Vision", "time_zone": "Mars/Olympus"}
    assert "There is no time zone" in read_page(owner.client.post("/settings/", form))
    owner.client.post("/settings/", form | {"time_zone": "Europe/Berlin"})
    entry = AuditEntry.objects.get(action="workspace.changed")
    assert entry.change == {
        "name": ["Vision team", "Vision"],
        "time_zone": ["UTC", "Europe/Berlin"],
    }


def test_only_the_first_owner_sets_an_address(owner):
    owner.client.post("/account/", {"name": "Ada L.", "email": "boss@example.org"})
    owner.user.refresh_from_db()
    assert (owner.user.name, owner.user.email) == ("Ada L.", "ada@example.org")
    User.objects.filter(pk=owner.user.pk).update(email="owner@localhost")
    owner.client.post("/account/", {"name": "Ada", "email": "Boss@example.org"})
    owner.user.refresh_from_db()
    assert owner.user.email == "boss@example.org"

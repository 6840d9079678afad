"""Removing a member: what it affects is shown first, tokens are revoked or kept, sessions end."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import AuditEntry, Membership, Token, User

PAGE = "/settings/members/"


@pytest.fixture
def ben(owner) -> User:  # type: ignore[no-untyped-def]
    person = User.objects.create_user("ben@example.org", name="Ben")
    Membership.objects.create(workspace=owner.workspace, user=person, role=Membership.MEMBER)
    return person


@pytest.fixture
def page(owner, ben) -> str:  # type: ignore[no-untyped-def]
    return f"{PAGE}{Membership.objects.get(user=ben).pk}/remove/"


def token_of(person: User, workspace, name: str, **more) -> tuple[Token, str]:  # type: ignore[no-untyped-def]
    return Token.make(workspace, name, [Token.READ], created_by=person, **more)


def reads(plain: str) -> int:
    return Client().get("/api/v1/jobs", headers={"Authorization": f"Bearer {plain}"}).status_code


def test_it_shows_tokens_with_their_last_use_and_jobs_before(owner, ben, page):
    used, _ = token_of(ben, owner.workspace, "cluster")
    Token.objects.filter(pk=used.pk).update(last_used_at=timezone.now())
    token_of(ben, owner.workspace, "laptop")
    token_of(ben, owner.workspace, "gone", revoked_at=timezone.now())
    token_of(ben, owner.workspace, "over", expires_at=timezone.now())
    token_of(owner.user, owner.workspace, "somebody-elses")
    factories.job(owner.workspace, "by-name.py", owner="Ben")
    factories.job(owner.workspace, "by-address.py", owner="BEN@example.org")
    factories.job(owner.workspace, "not-bens.py", owner="Benjamin")
    text = owner.page(page)
    for shown in ("cluster", "just now", "laptop", "never", "by-name.py", "by-address.py"):
        assert shown in text
    for hidden in ("gone", "over</th", "somebody-elses", "not-bens.py"):
        assert hidden not in text
    assert Membership.objects.filter(user=ben).exists()


def test_it_says_so_when_there_is_nothing_to_lose(owner, page):
    text = owner.page(page)
    assert "no valid tokens" in text
    assert "No job names this person" in text


def test_tokens_are_revoked_unless_the_owner_keeps_them(owner, ben, page):
    kept, kept_plain = token_of(ben, owner.workspace, "cluster")
    lost, lost_plain = token_of(ben, owner.workspace, "laptop")
    owner.client.post(page, {"kept": [kept.pk]})
    assert reads(kept_plain) == 200
    assert reads(lost_plain) == 401
    assert not Membership.objects.filter(user=ben).exists()
    assert "kept by Ada" in owner.page("/settings/tokens/")
    told = AuditEntry.objects.values_list("action", "subject", "actor_name", "change")
    actor, kept_by = "ada@example.org", {"kept_by": ["ben@example.org", "ada@example.org"]}
    assert set(map(str, told)) == set(
        map(
            str,
            [
                ("token.kept", str(kept), actor, kept_by),
                ("token.revoked", str(lost), actor, {}),
                ("member.removed", "ben@example.org", actor, {}),
            ],
        )
    )
    assert lost.pk != kept.pk


def test_a_kept_token_gains_nothing_and_goes_with_the_owner_who_kept_it(owner, ben, page):
    kept, plain = token_of(ben, owner.workspace, "cluster")
    owner.client.post(page, {"kept": [kept.pk]})
    kept.refresh_from_db()
    assert not kept.is_an_owners
    other = factories.member(owner.workspace, email="eli@example.org")
    client = Client()
    client.force_login(other)
    held = Membership.objects.get(user=owner.user)
    assert "cluster" in read_page(client.get(f"{PAGE}{held.pk}/remove/"))
    client.post(f"{PAGE}{held.pk}/remove/")
    assert reads(plain) == 401


def test_only_tokens_of_that_member_and_workspace_can_be_kept_or_go(owner, ben, page, stranger):
    mine, mine_plain = token_of(owner.user, owner.workspace, "mine")
    theirs, theirs_plain = token_of(ben, stranger.workspace, "elsewhere")
    owner.client.post(page, {"kept": [mine.pk, theirs.pk, "x", "9" * 30]})
    assert reads(mine_plain) == reads(theirs_plain) == 200
    for token in (mine, theirs):
        token.refresh_from_db()
        assert token.kept_by is None


def test_who_leaves_sees_and_loses_their_tokens(owner, ben):
    token, plain = token_of(ben, owner.workspace, "laptop")
    client = Client()
    client.force_login(ben)
    text = read_page(client.get(f"{PAGE}leave/"))
    assert "laptop" in text
    assert "Keep" not in text
    client.post(f"{PAGE}leave/", {"kept": [token.pk]})
    assert reads(plain) == 401
    assert "No workspace" in read_page(client.get("/", follow=True))


def test_a_get_request_removes_nobody(owner, ben, page):
    assert owner.client.get(page).status_code == 200
    assert Membership.objects.filter(user=ben).exists()

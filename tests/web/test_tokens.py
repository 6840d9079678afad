"""Tokens: shown once, kept as a digest, bounded by scope, time and revocation."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.html import read_page
from webapp.accounts.models import AuditEntry, Membership, Token

PAGE = "/settings/tokens/"


def make(owner, **form: object) -> str:  # type: ignore[no-untyped-def]
    page = owner.client.post(PAGE, {"name": "ci", "scopes": ["read"], "days": "30"} | form)
    return re.search(r">(tt_[\w-]+)<", read_page(page))[1]  # type: ignore[index]


def reads(plain: str) -> int:
    return Client().get("/api/v1/jobs", headers={"Authorization": f"Bearer {plain}"}).status_code


def test_it_is_shown_once_and_only_its_digest_is_kept(owner):
    plain = make(owner)
    assert reads(plain) == 200
    later = owner.page(PAGE)
    assert plain not in later
    assert plain[:8] in later
    kept = Token.objects.values_list()[0]
    assert all(plain not in str(value) for value in kept)


def test_it_does_what_its_scopes_say_and_no_more(owner):
    assert reads(make(owner, scopes=["ingest"])) == 403
    page = read_page(owner.client.post(PAGE, {"name": "nothing", "days": "30"}))
    assert "Choose at least one scope" in page


def test_it_ends_when_it_says(owner):
    plain = make(owner)
    left = Token.objects.get().expires_at - timezone.now()
    assert timedelta(days=29) < left <= timedelta(days=30)
    Token.objects.update(expires_at=timezone.now())
    assert reads(plain) == 401
    assert "Expired" in owner.page(PAGE)
    assert make(owner, days="")
    assert Token.objects.filter(expires_at=None).count() == 1


def test_a_revoked_one_is_refused_at_once(owner):
    plain = make(owner)
    reads(plain)
    assert Token.objects.get().last_used_at
    owner.client.post(f"{PAGE}{Token.objects.get().pk}/revoke/")
    assert reads(plain) == 401
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["token.created", "token.revoked"]
    assert all(plain not in str(entry) for entry in AuditEntry.objects.values())


def test_members_revoke_their_own_and_owners_any(owner):
    make(owner)
    of_the_owner = Token.objects.get()
    Token.objects.update(created_by=None)
    Membership.objects.update(role="member")
    assert owner.client.post(f"{PAGE}{of_the_owner.pk}/revoke/").status_code == 403
    plain = make(owner, name="mine")
    owner.client.post(f"{PAGE}{Token.objects.get(name='mine').pk}/revoke/")
    assert reads(plain) == 401


@pytest.mark.parametrize("what", ["New token", "Revoke"])
def test_viewers_see_no_way_to_make_or_revoke_one(owner, what):
    make(owner)
    Membership.objects.update(role="viewer")
    assert what not in owner.page(PAGE)
    assert owner.client.post(PAGE, {"name": "x", "scopes": ["read"]}).status_code == 403

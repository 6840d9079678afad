"""Sign-in by an OpenID Connect provider: who is accepted, as whom, and who is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone
from django_otp.plugins.otp_totp.models import TOTPDevice
from joserfc.jwk import RSAKey

from tests.html import read_page
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, serve
from tests.web import factories
from webapp.accounts import members
from webapp.accounts.models import Invitation, Membership, User

BEGIN, RETURN = "/sign-in/provider/", "/sign-in/provider/return/"
NEW = "grace@example.org"


@pytest.fixture
def provider(settings) -> Iterator[Provider]:
    found = Provider(claims={"email": "ada@example.org", "email_verified": True})
    server = serve(found)
    settings.OIDC_ISSUER, settings.OIDC_NAME = found.address, "Example Corp"
    settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = CLIENT_ID, CLIENT_SECRET
    yield found
    server.shutdown()
    server.server_close()


def come_back(client: Client, provider: Provider) -> HttpResponse:
    begun = client.get(BEGIN)
    assert begun.status_code == 302
    assert begun["Location"].startswith(f"{provider.address}/authorize?")
    return client.get(f"{RETURN}?{provider.answer_to(begun['Location'])}")


def refused(client: Client, answer: HttpResponse, status: int, why: str) -> None:
    assert answer.status_code == status
    assert why in read_page(answer)
    assert client.get("/").status_code == 302


def test_a_member_comes_in_and_goes_where_they_wanted_to(provider, owner, anonymous):
    page = read_page(anonymous.get("/sign-in/?next=/settings/"))
    assert "Sign in with Example Corp" in page
    answer = come_back(anonymous, provider)
    assert (answer.status_code, answer["Location"]) == (302, "/settings/")
    assert "ada@example.org" in read_page(anonymous.get("/account/"))


def test_it_asks_for_no_code_and_counts_where_two_factors_are_required(provider, owner, anonymous):
    TOTPDevice.objects.create(user=owner.user, confirmed=True)
    owner.workspace.requires_two_factor = True
    owner.workspace.save()
    assert owner.client.get("/").url.startswith("/sign-in/code/")
    assert come_back(anonymous, provider)["Location"] == "/"
    assert "Vision team" in read_page(anonymous.get("/"))


def test_an_invited_person_gets_an_account_and_the_offered_seat(provider, owner, anonymous):
    members.invite(owner.workspace, owner.user, NEW, Membership.MEMBER)
    provider.claims |= {"email": "Grace@Example.org", "name": "Grace"}
    assert come_back(anonymous, provider).status_code == 302
    seat = Membership.objects.get(user__email=NEW)
    assert (seat.workspace, seat.role) == (owner.workspace, Membership.MEMBER)
    assert seat.user.name == "Grace"
    assert not seat.user.has_usable_password()
    assert not Invitation.objects.filter(email=NEW).exists()


def test_whoever_is_unknown_stays_out(provider, owner, anonymous):
    provider.claims["email"] = NEW
    refused(anonymous, come_back(anonymous, provider), 403, "has no account and no invitation here")
    assert not User.objects.filter(email=NEW).exists()


def test_an_invitation_that_has_ended_lets_nobody_in(provider, owner, anonymous):
    members.invite(owner.workspace, owner.user, NEW, Membership.OWNER)
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    provider.claims["email"] = NEW
    refused(anonymous, come_back(anonymous, provider), 403, "has no account")


def test_an_allowed_domain_reads_and_no_more(provider, owner, anonymous, settings):
    settings.OIDC_ALLOWED_DOMAINS = ["example.org"]
    provider.claims["email"] = NEW
    come_back(anonymous, provider)
    assert Membership.objects.get(user__email=NEW).role == Membership.VIEWER
    provider.claims["email"] = "eve@sub.example.org"
    other = Client()
    refused(other, come_back(other, provider), 403, "has no account")


def test_whoever_an_owner_removed_gets_no_seat_back(provider, owner, anonymous, settings):
    settings.OIDC_ALLOWED_DOMAINS = ["example.org"]
    gone = factories.member(owner.workspace, email=NEW)
    gone.memberships.all().delete()
    provider.claims["email"] = NEW
    come_back(anonymous, provider)
    assert not gone.memberships.exists()


@pytest.mark.parametrize("told", [False, "false", None, 1])
def test_an_address_that_nobody_verified_is_worth_nothing(provider, owner, anonymous, told):
    provider.claims["email_verified"] = told
    refused(anonymous, come_back(anonymous, provider), 400, "no verified email address")


def test_an_account_that_is_closed_stays_closed(provider, owner, anonymous):
    User.objects.filter(pk=owner.user.pk).update(is_active=False)
    refused(anonymous, come_back(anonymous, provider), 403, "has no account")


@pytest.mark.parametrize(
    "wrong",
    [{"iss": "https://elsewhere.example"}, {"aud": "another"}, {"nonce": "old"}, {"exp": 1}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_token_for_somebody_else_is_refused(provider, owner, anonymous, wrong):
    provider.claims |= wrong
    refused(anonymous, come_back(anonymous, provider), 400, "did not confirm who you are")


def test_a_token_of_another_key_is_refused(provider, owner, anonymous):
    provider.published_key = RSAKey.generate_key(2048)
    refused(anonymous, come_back(anonymous, provider), 400, "did not confirm who you are")


def test_a_provider_that_describes_another_is_refused(provider, owner, anonymous):
    provider.described_issuer = "https://elsewhere.example"
    refused(anonymous, come_back(anonymous, provider), 400, "did not confirm who you are")


def test_an_answer_is_worth_something_once_and_where_it_was_asked(provider, owner, anonymous):
    begun = anonymous.get(BEGIN)["Location"]
    query = provider.answer_to(begun)
    elsewhere = Client()
    refused(elsewhere, elsewhere.get(f"{RETURN}?{query}"), 400, "started in another browser")
    assert anonymous.get(f"{RETURN}?{query}").status_code == 302
    again = Client()
    refused(again, again.get(f"{RETURN}?{query}"), 400, "started in another browser")


def test_who_declines_is_told_so(provider, owner, anonymous):
    state = anonymous.get(BEGIN)["Location"].split("state=")[1].split("&")[0]
    answer = anonymous.get(f"{RETURN}?error=access_denied&state={state}")
    refused(anonymous, answer, 400, "did not confirm who you are")


def test_the_address_may_come_from_the_userinfo_of_the_same_person(provider, owner, anonymous):
    provider.claims = {}
    provider.userinfo = {"sub": "person-2", "email": "ada@example.org", "email_verified": True}
    refused(anonymous, come_back(anonymous, provider), 400, "did not confirm who you are")
    provider.userinfo["sub"] = "person-1"
    assert come_back(anonymous, provider).status_code == 302
    assert anonymous.get("/").status_code == 200


def test_a_provider_that_does_not_answer_leaves_the_password(settings, owner, anonymous):
    settings.OIDC_ISSUER, settings.OIDC_NAME = "http://127.0.0.1:9", "Example Corp"
    answer = anonymous.get(BEGIN)
    refused(anonymous, answer, 502, "Example Corp doesn&#x27;t answer")
    assert 'name="password"' in read_page(answer)


@pytest.mark.parametrize("address", [BEGIN, RETURN])
def test_without_a_provider_there_is_no_such_door(address, db, anonymous):
    assert urlsplit(anonymous.get(address)["Location"]).path == "/sign-in/"
    assert "Sign in with" not in read_page(anonymous.get("/sign-in/"))

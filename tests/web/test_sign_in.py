"""The one-time link: GET shows it, POST uses it, once."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.utils import timezone

from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import Membership, SignInLink, Workspace
from webapp.accounts.setup import sign_in_link


@pytest.fixture
def link(owner) -> str:
    return urlsplit(sign_in_link(owner.workspace, "")).path


def test_it_signs_in_by_post_and_burns_the_link(link, anonymous):
    assert anonymous.get(link).status_code == 200
    assert anonymous.get("/").status_code == 302
    assert anonymous.post(link)["Location"] == "/"
    assert anonymous.get("/").status_code == 200
    again = Client().post(link)
    assert again.status_code == 410
    assert "already used" in read_page(again)


def test_looking_at_a_link_does_not_use_it(link, anonymous):
    for _ in range(3):
        assert Client().get(link).status_code == 200
    assert anonymous.post(link).status_code == 302


def test_it_refuses_an_expired_link(link, anonymous):
    SignInLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    answer = anonymous.post(link)
    assert answer.status_code == 410
    assert "Link expired" in read_page(answer)
    assert anonymous.get("/").status_code == 302


def test_it_says_when_a_link_is_not_one(anonymous, db):
    answer = anonymous.get("/sign-in/not-a-secret/")
    assert answer.status_code == 410
    assert "Unknown sign-in link" in read_page(answer)


def test_it_goes_back_to_the_page_that_was_asked_for(link, anonymous, owner):
    run = factories.run(factories.job(owner.workspace))
    anonymous.get(anonymous.get(f"/runs/{run.pk}/")["Location"])
    assert anonymous.post(link)["Location"] == f"/runs/{run.pk}/"


def test_it_goes_back_to_no_other_host(link, anonymous):
    anonymous.get("/sign-in/?next=https://elsewhere.example/")
    assert anonymous.post(link)["Location"] == "/"


def test_it_signs_out_by_post_only(owner):
    assert owner.client.get("/sign-out/").status_code == 405
    owner.client.post("/sign-out/")
    assert owner.client.get("/").status_code == 302


def test_it_needs_the_forms_own_secret(link):
    careful = Client(enforce_csrf_checks=True)
    assert careful.post(link).status_code == 403


def test_it_switches_to_another_workspace_of_the_same_person(owner):
    other = Workspace.objects.create(name="Second", is_sample_data=True)
    Membership.objects.create(workspace=other, user=owner.user)
    owner.client.post("/workspace/", {"workspace": str(other.uuid)})
    text = read_page(owner.client.get("/"))
    assert "Sample data" in text
    assert owner.client.get("/").wsgi_request.workspace == other


@pytest.mark.parametrize("chosen", ["theirs", "nonsense", ""])
def test_it_switches_to_no_workspace_of_others(owner, chosen):
    theirs = Workspace.objects.create(name="Theirs")
    value = str(theirs.uuid) if chosen == "theirs" else chosen
    assert owner.client.post("/workspace/", {"workspace": value}).status_code == 404
    assert owner.client.get("/").wsgi_request.workspace == owner.workspace


def test_the_link_of_a_blocked_person_is_refused(link, anonymous, owner):
    owner.user.is_active = False
    owner.user.save()
    assert anonymous.post(link).status_code == 410
    assert anonymous.get("/").status_code == 302


PASSWORD = "a long enough secret"


@pytest.fixture
def ada(owner):  # type: ignore[no-untyped-def]
    owner.user.set_password(PASSWORD)
    owner.user.save()
    return owner.user


def sign_in(client: Client, email: str, password: str = PASSWORD, **more):  # type: ignore[no-untyped-def]
    return client.post("/sign-in/", {"email": email, "password": password}, **more)


def test_a_password_signs_in_whatever_the_case_of_the_address(ada, anonymous):
    assert sign_in(anonymous, "ADA@Example.org")["Location"] == "/"
    assert anonymous.get("/").status_code == 200


def test_the_session_gets_a_new_key_at_the_sign_in(ada, anonymous):
    anonymous.get("/sign-in/?next=/account/")
    before = anonymous.session.session_key
    assert sign_in(anonymous, ada.email)["Location"] == "/account/"
    assert anonymous.session.session_key != before


def test_a_wrong_password_and_an_unknown_address_look_the_same(ada, anonymous):
    wrong = read_page(sign_in(anonymous, ada.email, "not this one"))
    unknown = read_page(sign_in(anonymous, "nobody@example.org", "not this one"))
    told = "Wrong email address or password."
    assert told in wrong
    assert told in unknown


def test_somebody_without_a_password_has_none_that_works(owner, anonymous):
    for password in ("", "!", "None"):
        sign_in(anonymous, owner.user.email, password)
        assert anonymous.get("/").status_code == 302


def test_guessing_is_stopped_for_this_account_from_this_address_only(ada, anonymous, settings):
    guesser, elsewhere = "10.0.0.1", "10.0.0.2"
    for _ in range(settings.AXES_FAILURE_LIMIT):
        answer = sign_in(anonymous, ada.email, "wrong", REMOTE_ADDR=guesser)
    assert answer.status_code == 429
    assert answer["Retry-After"] == "900"
    refused = sign_in(Client(), ada.email, REMOTE_ADDR=guesser)
    assert refused.status_code == 429
    assert "Try again in 15 minutes" in read_page(refused)
    assert sign_in(Client(), ada.email, REMOTE_ADDR=elsewhere).status_code == 302
    other = factories.member(email="ben@example.org")
    other.set_password(PASSWORD)
    other.save()
    assert sign_in(Client(), other.email, REMOTE_ADDR=guesser).status_code == 302


def test_cookies_are_out_of_reach_of_scripts_and_other_sites(ada, anonymous):
    cookie = sign_in(anonymous, ada.email).cookies["sessionid"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"


def test_the_sign_in_page_says_how_the_first_owner_gets_in(anonymous, db):
    assert "manage.py welcome" in read_page(anonymous.get("/sign-in/"))

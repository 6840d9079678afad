"""The places where a person is signed in: listed, ended one by one, ended everywhere."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from django.test import Client

from tests.html import read_page
from tests.web import factories
from tests.web.test_sign_in import PASSWORD, sign_in
from webapp.accounts.models import Membership, SignedInSession
from webapp.accounts.sessions import device_name
from webapp.accounts.tasks import forget_expired_sessions

PAGE = "/account/sessions/"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
CHROME = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"
SAFARI = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Safari/604.1"
EDGE = f"{CHROME} Edg/140.0"


@pytest.fixture
def ada(owner):  # type: ignore[no-untyped-def]
    owner.user.set_password(PASSWORD)
    owner.user.save()
    return owner.user


def signed_in(user, agent: str = FIREFOX, address: str = "192.0.2.7") -> Client:  # type: ignore[no-untyped-def]
    client = Client(REMOTE_ADDR=address, headers={"User-Agent": agent})
    assert sign_in(client, user.email).status_code == 302
    return client


def is_signed_in(client: Client) -> bool:
    return client.get("/account/").status_code == 200


def test_it_lists_each_device_with_its_address_and_marks_this_one(ada):
    laptop, phone = signed_in(ada), signed_in(ada, SAFARI, "2001:db8::7")
    page = read_page(laptop.get(PAGE))
    for text in ("Firefox on Linux", "192.0.2.7", "Safari on iPhone", "2001:db8::7"):
        assert text in page
    assert page.count("This device") == 1
    assert phone.session.session_key not in page


def test_one_device_is_signed_out_and_the_others_are_not(ada):
    laptop, phone = signed_in(ada), signed_in(ada, SAFARI)
    held = SignedInSession.objects.get(session=phone.session.session_key)
    laptop.post(f"{PAGE}{held.uuid}/end/")
    assert not is_signed_in(phone)
    assert is_signed_in(laptop)
    own = SignedInSession.objects.get(session=laptop.session.session_key)
    assert laptop.post(f"{PAGE}{own.uuid}/end/")["Location"] == "/sign-in/"
    assert not is_signed_in(laptop)


def test_signing_out_everywhere_ends_all_sessions_of_this_person_only(ada, stranger):
    laptop, phone = signed_in(ada), signed_in(ada, SAFARI)
    laptop.post(f"{PAGE}end/")
    assert not is_signed_in(laptop)
    assert not is_signed_in(phone)
    assert is_signed_in(stranger.client)


def test_nobody_ends_the_session_of_somebody_else(owner, stranger):
    held = SignedInSession.objects.get(user=owner.user)
    assert stranger.client.post(f"{PAGE}{held.uuid}/end/").status_code == 302
    assert is_signed_in(owner.client)


def test_a_new_password_leaves_only_this_session_in_the_list(ada):
    laptop, phone = signed_in(ada), signed_in(ada, SAFARI)
    form = {"current": PASSWORD, "password": "another long secret", "again": "another long secret"}
    laptop.post("/account/password/", form)
    assert is_signed_in(laptop)
    assert not is_signed_in(phone)
    assert SignedInSession.objects.get(user=ada).pk == laptop.session.session_key


def test_signing_out_removes_the_session_from_the_list(ada):
    client = signed_in(ada)
    client.post("/sign-out/")
    assert not SignedInSession.objects.filter(user_agent=FIREFOX).exists()


def test_a_session_from_before_the_list_is_listed_at_its_next_request(owner):
    SignedInSession.objects.all().delete()
    assert "Unknown device" in owner.page(PAGE)


def test_the_upgrade_lists_sessions_and_leaves_out_those_of_nobody(owner):
    Client().get("/sign-in/?next=/account/")
    SignedInSession.objects.all().delete()
    moving = import_module("webapp.accounts.migrations.0006_list_existing_sessions")
    moving.list_sessions(apps, None)
    assert Session.objects.count() > SignedInSession.objects.count() == 1
    assert SignedInSession.objects.get().user == owner.user


def test_an_expired_session_is_not_listed_and_its_address_is_forgotten(ada):
    client, other = signed_in(ada), signed_in(ada, SAFARI)
    gone = Session.objects.filter(pk=other.session.session_key)
    gone.update(expire_date="2026-01-01T00:00Z")
    assert "Safari" not in read_page(client.get(PAGE))
    forget_expired_sessions()
    assert not SignedInSession.objects.filter(user_agent=SAFARI).exists()
    assert is_signed_in(client)


def test_a_removed_member_is_signed_out_unless_another_workspace_is_left(owner, stranger):
    for email, *more in (("ben@example.org",), ("eli@example.org", stranger.workspace)):
        person = factories.member(*more, email=email)
        held = Membership.objects.create(
            workspace=owner.workspace, user=person, role=Membership.MEMBER
        )
        client = Client()
        client.force_login(person)
        assert is_signed_in(client)
        owner.client.post(f"/settings/members/{held.pk}/remove/")
        assert is_signed_in(client) is bool(more)


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (FIREFOX, "Firefox on Linux"),
        (CHROME, "Chrome on Windows"),
        (EDGE, "Edge on Windows"),
        (SAFARI, "Safari on iPhone"),
        ("curl/8.1", "Unknown device"),
        ("", "Unknown device"),
    ],
)
def test_a_device_is_named_by_browser_and_system(agent, name):
    assert device_name(agent) == name

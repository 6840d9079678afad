"""A forgotten password: one link, one hour, and nobody learns who has an account."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from django.core import mail
from django.test import Client

from tests.html import read_page
from tests.web.test_sign_in import PASSWORD, sign_in
from webapp.notify import password_reset
from webapp.notify.models import PasswordReset

NEW = "quite another secret"


def work() -> None:
    """Do what a worker does with the requests."""
    for reset in PasswordReset.objects.filter(done=0).order_by("pk"):
        password_reset.send(reset.pk)


def link_mailed(email: str) -> str:
    Client().post("/password/", {"email": email})
    work()
    (letter,) = mail.outbox
    assert letter.to == [email.lower()]
    return urlsplit(re.search(r"http\S+", letter.body.split(":", 2)[2])[0]).path  # type: ignore[index]


def set_by(client: Client, link: str, password: str = NEW, again: str = NEW):  # type: ignore[no-untyped-def]
    opened = client.get(link)
    assert link not in opened["Location"]
    return client.post(opened["Location"], {"password": password, "again": again})


@pytest.fixture
def link(owner) -> str:
    return link_mailed("Ada@example.org")


def test_the_link_sets_a_password_and_signs_in_once(owner, link, anonymous):
    assert set_by(anonymous, link).status_code == 302
    assert anonymous.get("/").status_code == 200
    assert sign_in(Client(), owner.user.email, NEW).status_code == 302
    assert set_by(Client(), link).status_code == 410


def test_every_other_session_ends(owner, link, anonymous):
    assert owner.client.get("/").status_code == 200
    set_by(anonymous, link)
    assert owner.client.get("/").status_code == 302


def test_nobody_learns_whether_an_address_has_an_account(owner):
    known = Client().post("/password/", {"email": "ada@example.org"}).content
    unknown = Client().post("/password/", {"email": "eva@example.org"}).content
    assert known.replace(b"ada@", b"eva@") == unknown
    work()
    assert len(mail.outbox) == 1


@pytest.mark.parametrize(
    ("password", "told"),
    [
        ("short", "too short"),
        ("1234567890123", "entirely numeric"),
        ("password123", "too common"),
        ("ada@example.org", "too similar"),
    ],
)
def test_a_weak_password_is_refused_with_the_reason(link, anonymous, password, told):
    page = read_page(set_by(anonymous, link, password, password))
    assert told in page


def test_two_that_differ_are_refused(link, anonymous):
    assert "The two passwords differ" in read_page(set_by(anonymous, link, NEW, PASSWORD))


@pytest.mark.parametrize("link", ["/password/MQ/x/", "/password/!!/x/", "/password/%00/x/"])
def test_a_made_up_link_is_none(link, anonymous, db):
    opened = anonymous.get(link, follow=True)
    assert opened.status_code == 410


def test_a_changed_password_needs_the_current_one(owner):
    owner.user.set_password(PASSWORD)
    owner.user.save()
    owner.client.force_login(owner.user)
    form = {"current": "wrong", "password": NEW, "again": NEW}
    page = read_page(owner.client.post("/account/password/", form))
    assert "Wrong password" in page
    other = Client()
    sign_in(other, owner.user.email)
    owner.client.post("/account/password/", form | {"current": PASSWORD})
    assert owner.client.get("/").status_code == 200
    assert other.get("/").status_code == 302

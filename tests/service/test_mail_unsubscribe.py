"""The unsubscribe link: one POST without cookies is enough, and GET changes nothing."""

from __future__ import annotations

import re

import pytest
from django.core import mail as django_mail
from django.test import Client

from tests.html import read_page
from tests.service import mailing
from webapp.notify import subscriptions

pytestmark = pytest.mark.django_db
ONE_CLICK = "List-Unsubscribe=One-Click"


@pytest.fixture
def team() -> mailing.Team:
    return mailing.team()


@pytest.fixture
def link(team) -> str:
    """Return the path in the header of a mail to Ada."""
    mailing.advised_run(team.agent())
    mailing.one_round()
    (message,) = [each for each in django_mail.outbox if each.to == ["ada@example.org"]]
    match = re.fullmatch(r"<http://127\.0\.0\.1:8000(/.+)>", message.message()["List-Unsubscribe"])
    assert match is not None
    django_mail.outbox.clear()
    return match[1]


@pytest.fixture
def stranger() -> Client:
    """Return a client without cookie and CSRF token, as a mail program posts."""
    return Client(enforce_csrf_checks=True)


def one_click(client: Client, link: str, body: str = ONE_CLICK):  # type: ignore[no-untyped-def]
    return client.post(link, body, content_type="application/x-www-form-urlencoded")


def is_on(team: mailing.Team) -> bool:
    return mailing.membership(team.owner).subscriptions.get(kind="recommendation").is_wanted


def test_one_post_without_cookies_unsubscribes_at_once(team, link, stranger):
    answer = one_click(stranger, link)
    assert answer.status_code == 200
    assert not answer.cookies
    assert not is_on(team)
    mailing.advised_run(team.agent("another"))
    mailing.one_round()
    assert [message.to for message in django_mail.outbox] == [["bob@example.org"]]


def test_again_is_the_same(team, link, stranger):
    for _ in range(3):
        assert one_click(stranger, link).status_code == 200
    assert not is_on(team)


def test_a_multipart_body_will_do_too(team, link, stranger):
    assert stranger.post(link, {"List-Unsubscribe": "One-Click"}).status_code == 200
    assert not is_on(team)


@pytest.mark.parametrize("method", ["get", "head"])
def test_a_scanner_that_follows_links_changes_nothing(team, link, stranger, method):
    answer = getattr(stranger, method)(link)
    assert answer.status_code == 200
    assert is_on(team)
    assert "no-store" in answer["Cache-Control"]


def test_the_page_asks_and_its_button_is_enough(team, link, stranger):
    assert '<form method="post">' in read_page(stranger.get(link))
    page = read_page(stranger.post(link))
    assert "<h1>Unsubscribed</h1>" in page
    assert 'name="undo"' in page


def test_undo_switches_on_again_without_what_was_found_meanwhile(team, link, stranger):
    one_click(stranger, link)
    mailing.advised_run(team.agent("meanwhile"))
    page = read_page(one_click(stranger, link, "undo=1"))
    assert "Subscribed again" in page
    assert is_on(team)
    mailing.advised_run(team.agent("afterwards"))
    mailing.one_round()
    to_ada = [message.subject for message in django_mail.outbox if "ada@example.org" in message.to]
    assert len(to_ada) == 1
    assert to_ada[0].startswith("afterwards")


def test_it_tells_nobody_whose_it_is(team, link, stranger):
    for page in (stranger.get(link), one_click(stranger, link)):
        shown = read_page(page)
        assert "ada" not in shown
        assert team.workspace.name not in shown


@pytest.mark.parametrize("token", ["x", "1.1.recommendation:forged", "1.1.recommendation"])
def test_a_forged_token_does_nothing(team, stranger, token):
    assert one_click(stranger, f"/unsubscribe/{token}/").status_code == 404
    assert is_on(team)


def test_a_token_is_for_one_person_only(team, link, stranger):
    signature = link.rstrip("/").rpartition(":")[2]
    bob, workspace = team.member.pk, team.workspace.pk
    forged = f"/unsubscribe/{bob}.{workspace}.recommendation:{signature}/"
    assert one_click(stranger, forged).status_code == 404


def test_who_has_left_is_told_that_nothing_comes(team, link, stranger):
    mailing.membership(team.owner).delete()
    answer = one_click(stranger, link)
    assert answer.status_code == 200
    assert "<h1>Unsubscribed</h1>" in read_page(answer)


def test_a_refused_method_is_refused(link, stranger):
    assert stranger.put(link).status_code == 405


def test_switching_on_what_is_on_keeps_what_is_due(team):
    held = mailing.membership(team.owner).subscriptions.get(kind="recommendation")
    again = subscriptions.switch(mailing.membership(team.owner), "recommendation", is_on=True)
    assert again.since == held.since

"""EMAIL_URL and EMAIL_FROM: what they set, and that a wrong one stops the start with its reason."""

from __future__ import annotations

from dataclasses import astuple
from urllib.parse import quote

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webapp import env
from webapp.notify.channels import mail as checks

NAME = "EMAIL_URL"


def parsed(monkeypatch: pytest.MonkeyPatch, url: str) -> env.MailServer:
    monkeypatch.setenv(NAME, url)
    return env.mail(NAME)


@pytest.mark.parametrize(
    ("url", "port", "uses_starttls", "uses_tls"),
    [
        ("smtp://mail.example.org", 25, False, False),
        ("smtp+tls://mail.example.org", 587, True, False),
        ("submission://mail.example.org", 587, True, False),
        ("smtp+ssl://mail.example.org", 465, False, True),
        ("smtps://mail.example.org", 465, False, True),
        ("smtp+tls://mail.example.org:2525", 2525, True, False),
    ],
)
def test_a_server_is_named_by_its_scheme(monkeypatch, url, port, uses_starttls, uses_tls):
    server = parsed(monkeypatch, url)
    assert (server.host, server.port) == ("mail.example.org", port)
    assert (server.uses_starttls, server.uses_tls) == (uses_starttls, uses_tls)
    assert server.timeout_seconds == 10


def test_without_one_mail_goes_to_the_log(monkeypatch):
    monkeypatch.delenv(NAME, raising=False)
    assert env.mail(NAME).backend.endswith("console.EmailBackend")
    assert parsed(monkeypatch, "").backend.endswith("console.EmailBackend")


def test_a_folder_and_a_time_out(monkeypatch):
    assert parsed(monkeypatch, "file:///var/mail%20out").folder == "/var/mail out"
    assert parsed(monkeypatch, "smtp://mail?timeout=3").timeout_seconds == 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(user=st.text(min_size=1), password=st.text(min_size=1))
def test_any_user_and_password_come_through(monkeypatch, user, password):
    if any("\ud800" <= each <= "\udfff" for each in user + password):
        return
    url = f"smtp://{quote(user, safe='')}:{quote(password, safe='')}@mail:25"
    server = parsed(monkeypatch, url)
    assert (server.user, server.password, server.host) == (user, password, "mail")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://mail", "'http' is not one of smtp"),
        ("mail.example.org:25", "is not one of smtp"),
        ("smtp://", "write scheme://user:password@host:port"),
        ("smtp://mail:port", "the port is not a number"),
        ("smtp://mail:99999", "the port is not a number"),
        ("smtp://ada:hunter2/x@mail", "percent-encoded"),
        ("smtp://ada:hunter2#x@mail", "percent-encoded"),
        ("smtp://ada@mail", "give user and password, or neither"),
        ("smtp://[::1", "write scheme://"),
        ("smtp://mail/path", "write scheme://"),
        ("smtps://mail:587", "port 587 speaks STARTTLS; write smtp+tls"),
        ("smtp://mail?timeout=0", "timeout='0' is not a number from 1 to 60"),
        ("smtp://mail?timeout=soon", "timeout='soon'"),
        ("smtp://mail?tls=1", "?tls is unknown"),
        ("file://mail-out", "give the folder in full"),
        ("file:", "give the folder in full"),
    ],
)
def test_a_wrong_one_says_what_to_write_and_never_the_password(monkeypatch, url, told):
    with pytest.raises(ImproperlyConfigured) as raised:
        parsed(monkeypatch, url)
    assert str(raised.value).startswith(f"{NAME}: ")
    assert told in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("value", ["Trimtab <mail@example.org>", "mail@example.org", "a@mailhost"])
def test_a_sender_is_one_address(monkeypatch, value):
    monkeypatch.setenv("EMAIL_FROM", value)
    assert env.sender("EMAIL_FROM", "unused@localhost") == value


@pytest.mark.parametrize(
    "value", ["Trimtab", "@example.org", "a@", "a@b, c@d", "a@b\r\nBcc: c@d", "Ada <a@b"]
)
def test_a_wrong_sender_is_refused(monkeypatch, value):
    monkeypatch.setenv("EMAIL_FROM", value)
    with pytest.raises(ImproperlyConfigured, match="is not one address"):
        env.sender("EMAIL_FROM", "unused@localhost")


def test_the_check_warns_of_a_password_in_the_clear_and_of_a_sender_nobody_accepts():
    server = {"EMAIL_HOST": "mail.example.org", "EMAIL_HOST_PASSWORD": "x"}
    with override_settings(**server, DEFAULT_FROM_EMAIL="Trimtab <trimtab@localhost>"):
        assert checks.the_mail_password_travels_under_tls()
        assert checks.mail_comes_from_an_address()
    with override_settings(**server, EMAIL_USE_TLS=True, DEFAULT_FROM_EMAIL="a@example.org"):
        assert not checks.the_mail_password_travels_under_tls()
        assert not checks.mail_comes_from_an_address()


def test_nothing_that_is_shown_of_it_holds_the_password(monkeypatch):
    server = parsed(monkeypatch, "smtp+tls://ada:hunter2@mail")
    assert "hunter2" in astuple(server)
    assert "hunter2" not in repr(server)

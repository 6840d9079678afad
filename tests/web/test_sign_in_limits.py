"""The limits of signing in and of asking for a new password, by address and by account."""

from __future__ import annotations

import secrets

import pytest
from django.core import mail
from django.test import Client

from tests.html import read_page
from tests.web.test_passwords import work
from tests.web.test_sign_in import PASSWORD, sign_in
from webapp.accounts.models import User
from webapp.http import addresses, rate_limits
from webapp.notify.models import PasswordReset


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    rate_limits._limiter.cache_clear()
    monkeypatch.setattr(rate_limits, "_outage", rate_limits._Outage())


@pytest.fixture
def network() -> str:
    """Return a network that no other test counts for."""
    return f"2001:db8:{secrets.token_hex(2)}:{secrets.token_hex(2)}:"


@pytest.fixture
def ada(db) -> User:
    return User.objects.create_user(f"ada-{secrets.token_hex(4)}@example.org", PASSWORD)


def test_one_network_tries_so_many_accounts_and_no_more(ada, network, settings):
    settings.ADDRESS_SIGN_INS = 3
    for n in range(3):
        answer = sign_in(Client(), f"{n}@example.org", "wrong", REMOTE_ADDR=f"{network}:{n}")
        assert answer.status_code == 200
    refused = sign_in(Client(), ada.email, REMOTE_ADDR=f"{network}:ffff")
    assert refused.status_code == 429
    assert 1 <= int(refused["Retry-After"]) <= 900
    assert "Too many sign-in attempts" in read_page(refused)
    assert sign_in(Client(), ada.email, REMOTE_ADDR="192.0.2.1").status_code == 302


def test_an_account_is_tried_so_often_from_all_networks_together(ada, network, settings):
    settings.ACCOUNT_SIGN_INS = 3
    home = Client(REMOTE_ADDR="192.0.2.9")
    assert sign_in(home, ada.email).status_code == 302
    area = network.rsplit(":", 2)[0]
    unknown = f"eva-{secrets.token_hex(4)}@example.org"
    for email in (ada.email.upper(), unknown):
        answers = [
            sign_in(Client(), email, "wrong", REMOTE_ADDR=f"{area}:{n:x}::1").status_code
            for n in range(4)
        ]
        assert answers[-1] == 429
    assert sign_in(Client(), ada.email, REMOTE_ADDR="192.0.2.77").status_code == 429
    # Where the account is signed in, others can't lock it out.
    assert sign_in(Client(), ada.email, REMOTE_ADDR="192.0.2.9").status_code == 302


def test_the_lock_of_account_and_network_holds_for_all_of_a_network(ada, network, settings):
    for n in range(settings.AXES_FAILURE_LIMIT):
        answer = sign_in(Client(), ada.email, "wrong", REMOTE_ADDR=f"{network}:{n}")
    assert answer.status_code == 429
    assert sign_in(Client(), ada.email, REMOTE_ADDR=f"{network}:ffff").status_code == 429


def test_ipv4_addresses_of_a_listener_for_both_protocols_are_told_apart():
    assert addresses.to_network("::ffff:192.0.2.1") == "192.0.2.1"
    assert addresses.to_network("2001:db8::1") == addresses.to_network("2001:db8::2")
    assert addresses.to_network("192.0.2.1") != addresses.to_network("192.0.2.2")


def ask(email: str, address: str = "192.0.2.1"):  # type: ignore[no-untyped-def]
    return Client().post("/password/", {"email": email}, REMOTE_ADDR=address)


def test_an_account_gets_three_mails_an_hour_and_the_answer_stays_the_same(ada):
    answers = {ask(ada.email).content for _ in range(5)}
    assert len(answers) == 1
    work()
    assert len(mail.outbox) == 3
    PasswordReset.objects.update(created_at="2026-01-01T00:00Z", granted_at="2026-01-01T00:00Z")
    ask(ada.email)
    work()
    assert len(mail.outbox) == 4


def test_requests_at_the_same_moment_are_counted_by_the_worker(ada):
    for _ in range(5):
        PasswordReset.objects.create(email=ada.email)
    work()
    assert len(mail.outbox) == 3


def test_a_network_asks_for_so_many_mails_and_no_more(ada, network, settings):
    settings.ADDRESS_PASSWORD_RESETS = 2
    for n in range(2):
        assert ask(f"{n}@example.org", f"{network}:{n}").status_code == 200
    refused = ask(ada.email, f"{network}:9")
    assert refused.status_code == 429
    assert "Too many password resets" in read_page(refused)
    work()
    assert mail.outbox == []


def test_no_row_says_whether_an_account_exists_and_rows_go_after_a_day(ada):
    from webapp.notify.tasks import sweep

    ask(ada.email)
    ask("nobody@example.org")
    assert PasswordReset.objects.count() == 2
    work()
    assert len(mail.outbox) == 1
    assert not PasswordReset.objects.filter(done=0).exists()
    sweep()
    assert PasswordReset.objects.count() == 2
    PasswordReset.objects.update(created_at="2026-01-01T00:00Z")
    sweep()
    assert PasswordReset.objects.count() == 0


def test_a_mail_server_that_is_down_is_tried_again(ada, settings):
    ask(ada.email)
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    work()
    reset = PasswordReset.objects.get()
    assert (reset.done, reset.attempts) == (0, 1)
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    PasswordReset.objects.update(due_at="2026-01-01T00:00Z")
    work()
    assert len(mail.outbox) == 1


def test_owners_do_not_see_who_asked(owner, ada):
    ask(ada.email)
    PasswordReset.objects.update(given_up_at="2026-01-01T00:00Z", error=f"<{ada.email}> refused")
    for address in ("/settings/background/", "/settings/background/?kind=password_reset"):
        page = owner.page(address)
        assert ada.email not in page
        assert "Password reset" not in page
    form = {"kind": "password_reset", "row": PasswordReset.objects.get().pk}
    page = owner.client.post("/settings/background/try-again/", form, follow=True)
    assert "has not failed, or no longer exists" in read_page(page)

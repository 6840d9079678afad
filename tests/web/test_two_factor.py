"""Two-factor sign-in: set-up, the second step, recovery, and workspaces that require it."""

from __future__ import annotations

import re
import time
from base64 import b32decode
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django_otp.oath import hotp
from django_otp.plugins.otp_totp.models import TOTPDevice

from tests.html import read_page
from tests.web import factories
from tests.web.test_passwords import link_mailed, set_by
from tests.web.test_sign_in import PASSWORD, sign_in
from webapp.accounts.models import AuditEntry, Membership, RecoveryCodes, Token
from webapp.accounts.setup import sign_in_link

PAGE, CODE = "/account/two-factor/", "/sign-in/code/"
STEP_SECONDS = 30


@pytest.fixture
def ada(owner):  # type: ignore[no-untyped-def]
    owner.user.set_password(PASSWORD)
    owner.user.save()
    owner.client.force_login(owner.user)
    owner.client.get("/healthz")
    return owner.user


class App:
    """An authenticator app. No code is of a time step whose code was shown, since none works twice.

    It follows the clock, which may reach the next step between a code and its request.
    """

    def __init__(self, secret: str) -> None:
        self.key = b32decode(secret.replace(" ", ""))
        self.step = -1

    def code(self) -> str:
        self.step = max(self.step + 1, int(time.time()) // STEP_SECONDS)
        return f"{hotp(self.key, self.step):06d}"


def secret_on(page: str) -> str:
    return re.search(r'class="key">([A-Z2-7 ]+)<', page)[1]  # type: ignore[index]


def codes_on(page: str) -> list[str]:
    return re.findall(r"\b(?:[a-z2-9]{4}-){3}[a-z2-9]{4}\b", page)


def set_up(client: Client, password: str = PASSWORD) -> tuple[App, list[str]]:
    app = App(secret_on(read_page(client.get(PAGE))))
    page = read_page(client.post(PAGE, {"code": app.code(), "password": password}))
    return app, codes_on(page)


def is_in(client: Client) -> bool:
    return client.get("/account/").status_code == 200


def by_password(user, **more):  # type: ignore[no-untyped-def]
    client = Client()
    assert sign_in(client, user.email, **more)["Location"] == CODE
    return client


def test_sign_in_asks_for_a_code_and_no_page_opens_before(ada, owner):
    app, codes = set_up(owner.client)
    assert len(codes) == 10
    client = by_password(ada)
    assert not is_in(client)
    assert client.get("/").status_code == 302
    assert "Enter a code" in read_page(client.get(CODE))
    assert "Wrong code" in read_page(client.post(CODE, {"code": "abc"}))
    assert not is_in(client)
    TOTPDevice.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)
    assert client.post(CODE, {"code": app.code()}).status_code == 302
    assert is_in(client)


def test_it_returns_to_the_page_that_was_asked_for(ada, owner):
    app, _ = set_up(owner.client)
    client = Client()
    client.get("/sign-in/?next=/account/sessions/")
    sign_in(client, ada.email)
    assert client.post(CODE, {"code": app.code()})["Location"] == "/account/sessions/"


def test_a_code_works_once(ada, owner):
    app, _ = set_up(owner.client)
    code = app.code()
    assert by_password(ada).post(CODE, {"code": code}).status_code == 302
    assert "Wrong code" in read_page(by_password(ada).post(CODE, {"code": code}))


def test_a_recovery_code_works_once_however_it_is_typed(ada, owner):
    _, codes = set_up(owner.client)
    typed = codes[0].upper().replace("-", " ")
    client = by_password(ada)
    assert client.post(CODE, {"code": typed}).status_code == 302
    assert "Recovery codes left: 9" in read_page(client.get("/account/"))
    assert "Wrong code" in read_page(by_password(ada).post(CODE, {"code": codes[0]}))


def test_after_wrong_codes_even_the_right_one_has_to_wait(ada, owner):
    app, codes = set_up(owner.client)
    client = by_password(ada)
    for _ in range(2):
        page = read_page(client.post(CODE, {"code": "000000"}))
    assert "Too many wrong codes" in page
    assert "Too many wrong codes" in read_page(client.post(CODE, {"code": app.code()}))
    assert not is_in(client)
    client.post(CODE, {"code": codes[0]})
    assert is_in(client)


def test_codes_and_secrets_are_shown_once_and_digests_are_stored(ada, owner):
    _, codes = set_up(owner.client)
    page = owner.page(PAGE)
    assert not codes_on(page)
    assert 'class="key"' not in page
    assert all(code.replace("-", "") not in str(RecoveryCodes.objects.values()) for code in codes)


def test_new_recovery_codes_end_the_old_ones_and_need_the_password(ada, owner):
    _, old = set_up(owner.client)
    refused = read_page(owner.client.post(f"{PAGE}codes/", {"password": "wrong"}))
    assert "Wrong password" in refused
    assert not codes_on(refused)
    new = codes_on(read_page(owner.client.post(f"{PAGE}codes/", {"password": PASSWORD})))
    assert len(new) == 10
    assert not set(old) & set(new)
    assert by_password(ada).post(CODE, {"code": old[0]}).status_code == 200
    RecoveryCodes.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)
    assert by_password(ada).post(CODE, {"code": new[0]}).status_code == 302


def test_switching_off_needs_the_password(ada, owner):
    set_up(owner.client)
    owner.client.post(f"{PAGE}off/", {"password": "wrong"})
    assert TOTPDevice.objects.exists()
    owner.client.post(f"{PAGE}off/", {"password": PASSWORD})
    assert not TOTPDevice.objects.exists()
    assert not RecoveryCodes.objects.exists()
    assert sign_in(Client(), ada.email)["Location"] == "/"


def test_a_person_without_a_password_confirms_by_a_code(owner):
    app, codes = set_up(owner.client, password="")
    assert "Wrong code" in read_page(owner.client.post(f"{PAGE}off/", {"code": "x"}))
    RecoveryCodes.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)
    owner.client.post(f"{PAGE}off/", {"code": codes[3]})
    assert not TOTPDevice.objects.exists()
    assert app


def test_set_up_needs_the_password_and_a_right_code(ada, owner):
    app = App(secret_on(owner.page(PAGE)))
    page = read_page(owner.client.post(PAGE, {"code": app.code(), "password": "wrong"}))
    assert "Wrong password" in page
    page = read_page(owner.client.post(PAGE, {"code": "000000", "password": PASSWORD}))
    assert "Wrong code" in page
    assert not TOTPDevice.objects.filter(confirmed=True).exists()


def test_set_up_signs_other_devices_out(ada, owner):
    other = Client()
    sign_in(other, ada.email)
    set_up(owner.client)
    assert is_in(owner.client)
    assert not is_in(other)


def test_a_password_can_not_be_guessed_on_the_pages_of_a_stolen_session(ada, owner, monkeypatch):
    monkeypatch.setattr("webapp.accounts.passwords.TRIES_A_MINUTE", 10)
    pages = [
        read_page(owner.client.post(f"{PAGE}", {"code": "1", "password": f"guess {n}"}))
        for n in range(12)
    ]
    assert "Wrong password" in pages[0]
    assert "Too many tries" in pages[-1]


def test_the_qr_code_has_no_styles_or_scripts(owner):
    page = owner.page(PAGE)
    svg = re.search(r"<svg.*?</svg>", page, re.DOTALL)[0]  # type: ignore[index]
    assert "style" not in svg
    assert "<script" not in svg
    assert "otpauth://totp/Trimtab" in page


def test_links_that_sign_in_ask_for_a_code_too(ada, owner):
    app, _ = set_up(owner.client)
    client = Client()
    link = urlsplit(sign_in_link(owner.workspace, "")).path
    assert client.post(link)["Location"] == CODE
    assert not is_in(client)
    client = Client()
    assert set_by(client, link_mailed(ada.email))["Location"] == CODE
    assert not is_in(client)
    client.post(CODE, {"code": app.code()})
    assert is_in(client)


def test_a_sign_in_without_its_code_ends_with_time_and_with_a_new_password(ada, owner, monkeypatch):
    app, _ = set_up(owner.client)
    late, stale = by_password(ada), by_password(ada)
    ada.set_password("quite another secret")
    ada.save()
    assert stale.post(CODE, {"code": app.code()})["Location"] == "/sign-in/"
    ada.set_password(PASSWORD)
    ada.save()
    now = time.time()
    monkeypatch.setattr("webapp.accounts.views.sign_in.time.time", lambda: now + 601)
    assert late.post(CODE, {"code": app.code()})["Location"] == "/sign-in/"


@pytest.fixture
def requiring(ada, owner):  # type: ignore[no-untyped-def]
    set_up(owner.client)
    owner.client.post("/settings/members/two-factor/", {"requires_two_factor": "on"})
    owner.workspace.refresh_from_db()
    assert owner.workspace.requires_two_factor
    return owner.workspace


def test_an_owner_sets_it_up_before_requiring_it(owner):
    answer = owner.client.post("/settings/members/two-factor/", {"requires_two_factor": "on"})
    assert answer["Location"] == PAGE
    owner.workspace.refresh_from_db()
    assert not owner.workspace.requires_two_factor


def test_members_without_it_set_it_up_before_they_see_the_workspace(requiring):
    ben = factories.member(email="ben@example.org")
    Membership.objects.create(workspace=requiring, user=ben, role=Membership.MEMBER)
    factories.job(requiring, "secret.py")
    client = Client()
    client.force_login(ben)
    led = client.get("/?q=x")
    assert led["Location"] == f"{PAGE}?next=/%3Fq%3Dx"
    page = read_page(client.get(led["Location"]))
    assert "requires two-factor sign-in" in page
    assert "secret.py" not in page
    app, codes = set_up(client, password="")
    assert len(codes) == 10
    assert "secret.py" in read_page(client.get("/jobs/"))
    assert app


def test_other_workspaces_of_the_person_stay_open(requiring, stranger):
    Membership.objects.create(workspace=requiring, user=stranger.user, role=Membership.MEMBER)
    stranger.client.post("/workspace/", {"workspace": requiring.uuid})
    assert stranger.client.get("/").status_code == 302
    stranger.client.post("/workspace/", {"workspace": stranger.workspace.uuid})
    assert stranger.client.get("/").status_code == 200


def test_tokens_work_where_two_factors_are_required(requiring, client):
    token = Token.make(requiring, "ci", [Token.READ])[1]
    headers = {"Authorization": f"Bearer {token}"}
    assert client.get("/api/v1/jobs", headers=headers).status_code == 200


def test_who_switches_it_off_is_led_to_the_set_up_again(requiring, owner):
    owner.client.post(f"{PAGE}off/", {"password": PASSWORD})
    assert owner.client.get("/").url.startswith(PAGE)


def test_a_session_from_before_the_set_up_is_asked_for_a_code(requiring, owner):
    """Single sign-on may have begun such a session, and the provider is gone."""
    other = Client()
    other.force_login(owner.user)
    assert other.get("/").url.startswith(CODE)


def test_owners_see_who_has_it_and_it_is_in_the_history(requiring, owner):
    assert 'badge-better">On' in owner.page("/settings/members/")
    actions = AuditEntry.objects.order_by("pk").values_list("action", "actor_name")
    assert list(actions) == [
        ("two_factor.enabled", "ada@example.org"),
        ("workspace.changed", "ada@example.org"),
    ]


def test_the_operator_resets_it_for_a_person_who_lost_everything(ada, owner, capsys):
    set_up(owner.client)
    call_command("reset_two_factor", "ADA@example.org")
    assert "is off" in capsys.readouterr().out
    assert not is_in(owner.client)
    assert sign_in(Client(), ada.email)["Location"] == "/"
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.actor_name) == ("two_factor.reset", "Trimtab")
    for email in ("ada@example.org", "nobody@example.org"):
        with pytest.raises(CommandError):
            call_command("reset_two_factor", email)

"""Two-factor sign-in walked in a real browser: set-up, sign-out, code, recovery code, sessions."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.web.test_browser import chromium, pytestmark, visit  # noqa: F401 - fixtures
from tests.web.test_sign_in import PASSWORD
from tests.web.test_two_factor import App, codes_on, secret_on


@pytest.fixture
def window(owner, visit):  # type: ignore[no-untyped-def] # noqa: F811
    owner.user.set_password(PASSWORD)
    owner.user.save()
    return visit(390)


def sign_in(page: Page, base_url: str, email: str) -> None:
    page.goto(f"{base_url}/sign-in/")
    page.get_by_label("Address").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def test_a_person_sets_it_up_and_signs_in_with_app_and_recovery_code(window, owner):
    page = window.go("/account/two-factor/")
    box = page.get_by_role("img", name="QR code").locator("svg").bounding_box()
    assert box["width"] > 150
    app = App(secret_on(page.content()))
    page.get_by_label("6-digit code").fill(app.code())
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Switch on").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    codes = codes_on(page.content())
    page.get_by_role("link", name="I saved them").click()
    expect(page.get_by_text("10 of 10")).to_be_visible()

    for code in (app.code, lambda: codes[0]):
        page.goto(f"{window.base_url}/account/sessions/")
        page.get_by_role("button", name="Sign out everywhere").click()
        expect(page.get_by_text("signed out on all devices")).to_be_visible()
        sign_in(page, window.base_url, owner.user.email)
        expect(page.get_by_role("heading", name="Enter a code")).to_be_visible()
        page.get_by_label("Code").fill(code())
        page.get_by_role("button", name="Sign in").click()
        expect(page).to_have_url(f"{window.base_url}/")
    assert window.complaints == []

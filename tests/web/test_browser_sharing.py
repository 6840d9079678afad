"""Sharing in a real browser: two clicks to a link, and what a visitor without an account sees."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse
from playwright.sync_api import expect

from tests.web.every_page import STANDARDS
from tests.web.test_browser import chromium, pair, pytestmark, visit  # noqa: F401 - fixtures

PAGES = [("run", 1440, "light"), ("pair", 390, "dark")]


@pytest.mark.parametrize("shown", PAGES)
def test_two_clicks_make_a_link_that_shows_charts(visit, chromium, pair, shown):  # noqa: F811
    kind, width, theme = shown
    a, b = pair
    compare = f"{reverse('dashboard:compare')}?a={a.pk}&b={b.pk}"
    page = visit().go(reverse("dashboard:run", args=[a.pk]) if kind == "run" else compare)
    page.get_by_role("link", name="Share", exact=True).click()
    page.get_by_role("button", name="Create link").click()
    link = page.locator("[data-copied=link]").inner_text()

    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    visitor, troubles = context.new_page(), []
    visitor.on("console", lambda m: troubles.append(m.text) if m.type == "error" else None)
    visitor.on("pageerror", lambda error: troubles.append(str(error)))
    visitor.on("response", lambda r: troubles.append(r.url) if r.status >= 400 else None)
    visitor.goto(link)
    expect(visitor.locator("[data-chart=cpu] canvas")).to_be_visible()
    expect(visitor.locator("[data-chart-error]")).to_be_hidden()
    assert visitor.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(visitor, options={"runOnly": STANDARDS}).response["violations"]
    assert found == []
    assert troubles == []
    context.close()

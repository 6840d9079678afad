"""The table of runs in a real browser: how many clicks its tasks take, by hand and by keyboard."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, expect

from tests.web import factories
from tests.web.every_page import Watch
from tests.web.test_browser import chromium, pytestmark, visit  # noqa: F401 - fixtures

TUESDAY = datetime(2026, 11, 24, 9, tzinfo=UTC)


class Clicks:
    """A hand that counts its clicks."""

    count = 0

    def on(self, target: Locator) -> None:
        target.click()
        self.count += 1


@pytest.fixture
def sweep(owner):
    """Return the first of six runs of a sweep; others have the same rate or the same day."""
    job = factories.job(owner.workspace, "vision/train.py")
    made = [
        factories.run(
            job,
            parameters={"lr": rate},
            tags={"sweep": "rates"},
            started_at=TUESDAY + timedelta(hours=place),
        )
        for place, rate in enumerate((0.1, 0.2, 0.3, 0.4, 0.5, 0.6))
    ]
    for day in range(1, 5):
        factories.run(job, parameters={"lr": 0.1}, started_at=TUESDAY + timedelta(days=day))
    return made[0]


def test_the_run_of_a_rate_and_a_day_takes_three_clicks(visit, sweep):  # noqa: F811
    page, clicks = visit().go("/"), Clicks()

    clicks.on(page.get_by_role("link", name="Runs", exact=True))
    clicks.on(page.get_by_label("Filter", exact=True))
    page.keyboard.type("lr = 0.1 and started = 2026-11-24")
    page.keyboard.press("Enter")
    clicks.on(page.get_by_role("link", name="vision/train.py #1"))

    expect(page).to_have_url(f"{page.url.partition('/runs/')[0]}/runs/{sweep.pk}/")
    assert clicks.count <= 3


def test_six_runs_of_a_sweep_are_compared_in_four_clicks(visit, sweep):  # noqa: F811
    window = visit()
    page, clicks = window.go("/"), Clicks()

    clicks.on(page.get_by_role("link", name="Runs", exact=True))
    page.get_by_label("Filter", exact=True).focus()
    page.keyboard.type("sweep = rates")
    page.keyboard.press("Enter")
    clicks.on(page.get_by_label("Select all runs of this page"))
    expect(page.get_by_text("6 runs selected")).to_be_visible()
    clicks.on(page.get_by_role("button", name="Compare"))

    page.wait_for_url("**/compare/?*")
    assert page.url.count("run=") == 6
    assert clicks.count <= 4
    assert not window.complaints


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_menus_are_opened_by_keyboard_and_hide_nothing(visit, sweep, width, theme):  # noqa: F811
    window = visit(width, theme)
    page = window.go("/runs/?filter=lr+%3D+0.1")

    page.get_by_text("Columns", exact=True).focus()
    page.keyboard.press("Enter")
    box = page.get_by_role("checkbox", name="lr", exact=True)
    box.focus()
    page.keyboard.press("Space")
    menu = page.get_by_role("form", name="Columns").bounding_box()
    assert menu is not None
    assert menu["x"] >= 0
    assert menu["x"] + menu["width"] <= width
    page.keyboard.press("Enter")

    page.wait_for_url("**column=param.lr*")
    expect(page.locator("td[data-label=lr]").first).to_have_text("0.1")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    watch = Watch(page, window.base_url)
    for address in ("/runs/?filter=lr+%3D+0.1&column=param.lr", "/runs/?group=param.lr"):
        assert watch.problems(address) == []

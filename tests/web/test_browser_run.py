"""The page of a run in a real browser, over the sample data."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse
from playwright.sync_api import expect

from tests.upgrade.uploads import send
from tests.web.test_browser import chromium, pytestmark, visit  # noqa: F401 - fixtures
from webapp.accounts.models import Token
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Run
from webapp.sample_data.load import uploads_of
from webapp.sample_data.published import published_runs

STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
MOST_PX = {1440: 2600, 390: 6000}
SECTIONS = ("summary", "advice", "money", "time", "charts", "rules", "environment", "files")


@pytest.fixture
def address(owner, live_server) -> str:
    """Return the address of the first published run: three nodes of four GPUs, five findings."""
    token = Token.make(owner.workspace, "loading", ["ingest"])[1]
    for upload in uploads_of(published_runs("sample-data")[0]):
        send(live_server.url, token, upload)
    run = Run.objects.get()
    evaluate(str(run.pk))
    return reverse("dashboard:run", args=[run.pk])


def test_the_page_is_short_until_something_is_unfolded(visit, address):  # noqa: F811
    for width, most_px in MOST_PX.items():
        window = visit(width)
        page = window.go(address)
        assert page.evaluate("document.documentElement.scrollHeight") <= most_px, width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert window.complaints == []


def test_the_index_stays_in_view_and_follows(visit, address):  # noqa: F811
    page = visit().go(address)
    index = page.get_by_role("navigation", name="On this page")
    listed = index.get_by_role("link").evaluate_all("links => links.map(a => a.hash.slice(1))")
    assert tuple(listed) == SECTIONS
    expect(index.locator("[aria-current]")).to_contain_text("Summary")

    index.get_by_role("link", name="Rules").click()

    expect(index.locator("[aria-current]")).to_contain_text("Rules")
    expect(page.get_by_role("heading", name="Rules")).to_be_in_viewport()
    expect(index).to_be_in_viewport()


def test_a_finding_leads_to_its_evidence_and_to_its_rule(visit, address):  # noqa: F811
    page = visit().go(address)
    row = page.locator("#rules tr", has_text="Unused GPUs")

    row.get_by_role("link", name="Show on the charts").click()

    expect(page.get_by_role("button", name="Unused GPUs")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("button", name="Long start-up")).to_have_attribute(
        "aria-pressed", "false"
    )
    expect(page.locator("[data-chart=gpu]")).to_be_in_viewport()
    page.goto(page.url.partition("#")[0] + "#rule-batch_size")
    expect(page.locator("#rule-batch_size")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_stands_in_the_way_of_anybody(visit, address, theme):  # noqa: F811
    page = visit(390, theme).go(address)
    page.evaluate("document.querySelectorAll('details:not(.menu)').forEach(d => d.open = true)")
    expect(page.locator("[data-chart=net] canvas")).to_have_attribute(
        "aria-label", re.compile("Net")
    )

    found = Axe().run(page, options={"runOnly": STANDARDS})

    assert found.response["violations"] == []


def test_what_is_shown_can_be_passed_on_as_an_address(visit, address):  # noqa: F811
    page = visit().go(address)
    page.get_by_role("button", name="Dollars").click()
    page.get_by_role("button", name="Unused GPUs").click()
    page.locator("[data-chart=gpu] .chart-area").focus()
    page.keyboard.press("+")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_visible()
    asked = parse_qs(urlsplit(page.url).query)
    assert asked == {
        "axis": ["dollars"],
        "evidence": ["unused_gpus"],
        "from": ["125.8"],
        "to": ["377.3"],
    }

    with page.expect_request(re.compile(r"series\.json.*from=125\.8&to=377\.3")):
        page.reload()

    expect(page.get_by_role("button", name="Dollars")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("button", name="Unused GPUs")).to_have_attribute("aria-pressed", "true")
    page.locator("[data-chart=gpu] .chart-area").focus()
    page.keyboard.press("0")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_hidden()


def test_lines_are_switched_off_and_picked_and_a_chart_is_saved(visit, address):  # noqa: F811
    window = visit()
    chart = window.go(address).locator("[data-chart=gpu]")
    expect(chart.locator("canvas")).to_have_attribute(
        "aria-label", re.compile(r"GPU, mean of 9: .*; 3 GPUs at 0 %: mean 0 %")
    )
    line = chart.get_by_role("button", name="3 GPUs at 0 %")

    line.click()

    expect(line).to_have_attribute("aria-pressed", "false")
    chart.get_by_text("Series").click()
    chart.get_by_label("GPU 1").first.check()
    expect(chart.get_by_role("button", name="GPU 1")).to_be_visible()
    with window.page.expect_download() as download:
        chart.get_by_role("button", name="PNG").click()
    assert download.value.suggested_filename == "gpu.png"
    assert window.complaints == []


def test_evidence_of_many_nodes_is_one_band(visit, address):  # noqa: F811
    page = visit().go(address + "?evidence=unused_gpus")
    expect(page.locator("[data-chart=gpu] canvas")).to_have_attribute(
        "aria-label", re.compile("GPU,")
    )

    drawn = page.evaluate(
        "() => Object.values(Chart.instances).map("
        "chart => (chart.evidence || []).flatMap(({ spans }) => spans))"
    )

    assert [[0, 503]] in drawn
    assert all(len(boxes) <= 1 for boxes in drawn)


def test_every_node_has_a_drawing_of_its_own(visit, address):  # noqa: F811
    for width in (1440, 390):
        window = visit(width)
        page = window.go(address)
        page.locator("[data-nodes] summary").click()

        drawings = page.locator("[data-multiples] svg")
        expect(drawings).to_have_count(3)
        expect(drawings.first).to_have_attribute("aria-label", re.compile(r"algo-1: mean \d+ %"))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert window.complaints == []

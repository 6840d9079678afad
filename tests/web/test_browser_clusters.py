"""Runs on many nodes in a real browser: the slow one is found, and each has a page of its own."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse
from playwright.sync_api import expect

from tests.web import clusters
from tests.web.test_browser import chromium, pytestmark, visit  # noqa: F401 - fixtures
from tests.web.test_browser_run import STANDARDS

NODES = 20


@pytest.fixture
def cluster(owner, live_server):
    """Return a run of more nodes than one answer has; the slow one is among the last."""
    return clusters.uploaded_cluster(owner.workspace, nodes=NODES, gpus=2, slow=18, minutes=0.5)


def test_the_slow_node_of_many_is_two_clicks_from_the_run(visit, cluster):  # noqa: F811
    window = visit()
    page = window.go(reverse("dashboard:run", args=[cluster.pk]))
    listed = page.locator("[data-stand-out] tbody tr")
    expect(listed).to_have_count(1)
    expect(listed).to_contain_text(re.compile("busy 3. %, median 9. %; step 249 ms, median 199 ms"))

    listed.get_by_role("link", name="training-18").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("training-18")
    heat = page.locator("[data-heat=GPU] canvas")
    expect(heat).to_have_attribute("aria-label", re.compile("^Every GPU: 2 rows, mean 3"))
    assert window.complaints == []


def test_every_node_is_in_the_map_and_unfolds_into_its_gpus(visit, cluster):  # noqa: F811
    page = visit().go(reverse("dashboard:run", args=[cluster.pk]))
    panel = page.locator("[data-heat=node]")
    canvas = panel.locator("canvas")
    expect(canvas).to_have_attribute("aria-label", re.compile(f"^Every node: {NODES} rows"))

    canvas.click(position={"x": 300, "y": 5})

    expect(canvas).to_have_attribute("aria-label", re.compile(f"^Every node: {NODES + 2} rows"))
    panel.get_by_role("button", name="Show as table: Every node").click()
    names = panel.locator(".chart-table tbody a").all_inner_texts()
    others = [f"training-{number}" for number in range(1, NODES + 1) if number != 18]
    assert names == ["training-18", *others]


def test_slowest_and_fastest_are_of_all_ranks(visit, cluster):  # noqa: F811
    page = visit().go(reverse("dashboard:run", args=[cluster.pk]))
    holder = page.locator("[data-percentiles]")

    expect(holder).to_contain_text(f"All ranks and phases: {2 * NODES}")
    expect(holder.locator("tbody tr").first).to_contain_text("slowest, training-18")
    expect(page.locator("[data-chart=gpu]")).to_contain_text(
        f"{NODES - 6} more nodes: see Every node"
    )


def test_panels_of_gpus_are_read_once_they_are_unfolded(visit, cluster):  # noqa: F811
    page = visit().go(reverse("dashboard:run", args=[cluster.pk]))
    expect(page.locator("[data-chart=gpu] canvas")).to_have_attribute(
        "aria-label", re.compile("mean")
    )
    fold = page.locator("[data-gpu-panels]")

    with page.expect_request(re.compile("panels=pcie")):
        fold.locator("summary").click()

    power = fold.locator("[data-chart=power]")
    expect(power).to_contain_text("What the GPU draws beside what it may draw")
    expect(power.locator("canvas")).to_have_attribute(
        "aria-label", re.compile(r"limit, mean of 12: mean 700 W")
    )
    expect(fold.locator("[data-chart=nvlink]")).to_be_visible()


def test_a_panel_without_a_series_is_not_drawn(visit, owner, live_server):  # noqa: F811
    run = clusters.uploaded_cluster(owner.workspace, nodes=1, minutes=0.5, has_counters=False)
    page = visit().go(reverse("dashboard:node", args=[run.pk, 1]))

    expect(page.locator("[data-chart=torch_memory]")).to_be_visible()
    expect(page.locator("[data-charts-gpu] .panel:visible")).to_have_count(1)


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_pages_of_clusters_and_nodes_are_accessible(visit, cluster, width, theme):  # noqa: F811
    window = visit(width, theme)
    page = window.go(reverse("dashboard:run", args=[cluster.pk]))
    expect(page.locator("[data-stand-out] a")).to_have_count(1)
    page.get_by_role("button", name="Show as table: Every node").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert Axe().run(page, options={"runOnly": STANDARDS}).response["violations"] == []

    page.goto(page.url.partition("?")[0] + "nodes/18/")
    expect(page.locator("[data-chart=power] canvas")).to_have_attribute(
        "aria-label", re.compile("700 W")
    )

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert Axe().run(page, options={"runOnly": STANDARDS}).response["violations"] == []

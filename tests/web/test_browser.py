"""The pages in a real browser: drawn, quiet, from our own host only, in both widths and themes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.contrib.auth import SESSION_KEY
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.web import factories, training
from webapp.accounts.models import User
from webapp.accounts.setup import sign_in_link
from webapp.analysis.models import Analysis
from webapp.runs.models import Run

CHROMIUM = Path("/usr/bin/chromium")
# Playwright's loop runs in this thread; Django must not take that for asynchronous code.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no {CHROMIUM}"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@dataclass
class Visit:
    """A signed-in browser window that notes everything that no page may cause."""

    context: BrowserContext
    page: Page
    base_url: str
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self._requested(request.url))

    def go(self, path: str) -> Page:
        response = self.page.goto(self.base_url + path)
        assert response is not None
        assert response.ok, (path, response.status)
        self.page.wait_for_load_state("networkidle")
        return self.page

    def _said(self, message) -> None:  # type: ignore[no-untyped-def]
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _requested(self, address: str) -> None:
        if not address.startswith((self.base_url, "data:")):
            self.complaints.append(f"foreign request: {address}")


@pytest.fixture
def visit(chromium, live_server, owner) -> Iterator[Visit]:
    opened: list[BrowserContext] = []

    def open_window(width: int = 1440, theme: str = "light") -> Visit:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        opened.append(context)
        _sign_in(context, owner.user, live_server.url)
        return Visit(context, context.new_page(), live_server.url)

    yield open_window  # type: ignore[misc]
    for context in opened:
        context.close()


def _sign_in(context: BrowserContext, user: User, base_url: str) -> None:
    client = Client()
    client.force_login(user)
    assert SESSION_KEY in client.session
    cookie = client.cookies["sessionid"]
    context.add_cookies([{"name": "sessionid", "value": cookie.value, "url": base_url}])


@pytest.fixture
def pair(owner) -> tuple[Run, Run]:
    """Return two analysed runs with real samples, and a finding with evidence on the first."""
    made = []
    for number in range(2):
        run = training.uploaded_run(owner.workspace, minutes=2, gap=(5,) if number else ())
        run.summary, run.work = factories.summary(), {"samples": 19_200.0}
        run.save()
        Analysis.objects.filter(run=run).update(wanted=1, done=1, is_final=True)
        made.append(factories.costed(run))
    factories.judgement(made[0])
    factories.judgement(made[0], "cpu_oversized", "passed", summary="CPU p95 was 96 %.")
    factories.recommendation(made[0])
    return made[0], made[1]


def _addresses(pair: tuple[Run, Run]) -> dict[str, str]:
    a, b = pair
    return {
        "home": reverse("dashboard:home"),
        "jobs": reverse("dashboard:jobs"),
        "runs": reverse("dashboard:runs"),
        "recommendations": reverse("advice:inbox"),
        "savings": reverse("spend:savings"),
        "job": reverse("dashboard:job", args=[a.job.uuid]),
        "run": reverse("dashboard:run", args=[a.pk]),
        "report": reverse("dashboard:report", args=[a.pk]),
        "compare": reverse("dashboard:compare") + f"?a={a.pk}&b={b.pk}",
    }


PAINTED = """canvas => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  for (let i = 3; i < data.length; i += 4) if (data[i]) return true;
  return false;
}"""


def test_every_main_page_can_be_reached_on_a_narrow_screen(visit):
    page = visit(390).go(reverse("dashboard:home"))
    links = page.get_by_role("navigation", name="Main").get_by_role("link")
    places = links.evaluate_all("links => links.map(a => a.getBoundingClientRect().right)")
    assert len(places) == 9
    assert max(places) <= 390


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_every_page_is_quiet_and_fits_its_window(visit, pair, width, theme):
    window = visit(width, theme)
    for name, address in _addresses(pair).items():
        page = window.go(address)
        wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wider <= 0, f"{name} is {wider} px too wide"
    assert window.complaints == []


@pytest.mark.parametrize("name", ["job", "run", "compare"])
def test_charts_are_drawn(visit, pair, name):
    window = visit()
    page = window.go(_addresses(pair)[name])
    canvases = [canvas for canvas in page.query_selector_all("canvas") if canvas.is_visible()]

    assert len(canvases) >= 2
    for canvas in canvases:
        assert canvas.evaluate(PAINTED), canvas.get_attribute("aria-label")
        assert canvas.get_attribute("role") == "img"
    assert window.complaints == []


@pytest.mark.parametrize("name", ["run", "job", "compare", "jobs"])
def test_a_browser_learns_at_once_which_modules_a_page_loads(visit, pair, name):
    """None of them is found only after another one has arrived."""
    page = visit().go(_addresses(pair)[name])
    loaded = page.evaluate(
        "performance.getEntriesByType('resource').map((each) => each.name)"
        ".filter((name) => new URL(name).pathname.endsWith('.js'))"
    )
    told = page.evaluate(
        "[...document.querySelectorAll('script[src], link[rel=modulepreload]')]"
        ".map((each) => each.src || each.href)"
    )
    assert sorted(loaded) == sorted(set(told))


def test_a_chart_says_in_words_what_it_shows(visit, pair):
    page = visit().go(_addresses(pair)["run"])

    label = page.locator("[data-chart=cpu] canvas").get_attribute("aria-label")

    assert re.match(r"CPU\. busy: mean \d+ %, max \d+ %\.", label)


def test_a_chart_can_be_read_as_a_table_and_as_csv(visit, pair):
    window = visit()
    page = window.go(_addresses(pair)["run"])
    chart = page.locator("[data-chart=cpu]")

    chart.get_by_role("button", name="Show as table").click()

    assert chart.locator("tbody tr").count() > 10
    with page.expect_download() as download:
        chart.get_by_role("link", name="CSV").click()
    assert "host.cpu_busy_pct" in Path(download.value.path()).read_text()


def test_zooming_reads_the_part_again_and_reset_shows_the_whole(visit, pair):
    window = visit()
    page = window.go(_addresses(pair)["run"])
    canvas = page.locator("[data-chart=cpu] canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2

    page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=4)
    with page.expect_request(re.compile(r"series\.json.*from=[1-9]")):
        page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=4)
        page.mouse.up()

    reset = page.get_by_role("button", name="Reset zoom")
    expect(reset).to_be_visible()
    with page.expect_request(re.compile(r"series\.json.*from=0&")):
        reset.click()
    expect(reset).to_be_hidden()
    assert window.complaints == []


def test_evidence_can_be_shown_and_hidden(visit, pair):
    page = visit().go(_addresses(pair)["run"])
    button = page.locator("[data-evidence] button")

    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")


def test_the_theme_is_chosen_by_a_button_and_remembered(visit, pair):
    window = visit(theme="light")
    page = window.go("/")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)

    page.get_by_role("button", name="Switch between light and dark").click()
    dark = page.evaluate(ground)
    page = window.go(_addresses(pair)["run"])

    assert dark != light
    assert page.evaluate(ground) == dark


def test_two_ticks_lead_to_the_comparison(visit, pair):
    window = visit()
    page = window.go(_addresses(pair)["job"])
    compare = page.get_by_role("button", name="Compare")
    expect(compare).to_be_disabled()

    for box in page.get_by_role("checkbox").all():
        box.check()
    compare.click()

    expect(page.locator("#sentence")).to_contain_text("Run #2 cost")
    assert window.complaints == []


def test_runs_can_be_aligned_by_time(visit, pair):
    page = visit().go(_addresses(pair)["compare"])
    by_time = page.get_by_role("button", name="By time")

    by_time.click()

    expect(by_time).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("button", name="By progress")).to_have_attribute(
        "aria-pressed", "false"
    )


def test_onboarding_goes_on_by_itself_when_the_first_job_is_there(visit, owner):
    page = visit().go("/")
    assert page.get_by_text("continues by itself").is_visible()

    factories.run(factories.job(owner.workspace, "first/train.py"))

    page.get_by_role("heading", name="Needs attention").wait_for(timeout=20_000)


def test_everything_can_be_reached_and_seen_by_keyboard(visit, pair):
    page = visit().go("/jobs/")
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        focus = page.evaluate(
            """() => {
              const e = document.activeElement, style = getComputedStyle(e);
              return {text: e.textContent.trim() || e.getAttribute("aria-label") || "",
                      ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
                      isBody: e === document.body};
            }"""
        )
        if focus["isBody"]:
            break
        assert focus["ring"], focus
        reached.append(focus["text"])

    assert reached[0] == "Skip to main content"
    assert "vision/train.py" in reached


def test_a_running_run_shows_its_new_samples_by_itself(visit, owner):
    part = training.Training("growing", minutes=2, ended=False)
    run = training.upload(owner.workspace, part, upto=4)
    window = visit()
    window.page.clock.install()
    page = window.go(reverse("dashboard:run", args=[run.pk]))
    figures = page.locator(".figures")
    expect(figures).to_contain_text("40 s")

    training.upload(owner.workspace, part, upto=8)
    page.clock.run_for(11_000)

    expect(figures).to_contain_text("1 m 20 s")
    assert window.complaints == []


def test_a_run_without_steps_says_how_to_record_them(visit, owner):
    job = factories.job(owner.workspace)
    run = factories.run(job)
    factories.node(run)
    page = visit().go(reverse("dashboard:run", args=[run.pk]))

    expect(page.locator("[data-chart=step] .chart-state")).to_contain_text("trimtab.step()")


def test_a_node_with_a_percentage_only_hides_no_bytes_of_the_others(visit, owner):
    nodes = (
        training.Training("train.py"),
        training.Training("train.py", machine="machine-2", has_memory_bytes=False),
    )
    nodes[1].run_id = nodes[0].run_id
    run, _ = (training.upload(owner.workspace, node) for node in nodes)

    page = visit().go(reverse("dashboard:run", args=[run.pk]))
    page.locator("[data-more-charts] summary").click()

    expect(page.locator("[data-chart=memory]")).to_be_visible()
    expect(page.locator("[data-chart=memory_share]")).to_be_visible()


def test_signing_in_by_the_link_works_in_the_browser(chromium, live_server, owner):
    context = chromium.new_context()
    page = context.new_page()
    page.goto(live_server.url + urlsplit(sign_in_link(owner.workspace, "")).path)

    page.get_by_role("button", name="Sign in").click()

    expect(page.get_by_role("heading", name="Measure your first run")).to_be_visible()
    context.close()


@pytest.mark.parametrize("name", ["job", "compare", "spend"])
def test_paper_has_no_buttons_whole_charts_and_the_light_theme(visit, pair, name):
    addresses = _addresses(pair) | {"spend": reverse("spend:spend")}
    window = visit(theme="light")
    page = window.go("/")
    page.get_by_role("button", name="Switch between light and dark").click()
    page = window.go(addresses[name])
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 700, "height": 1000})
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")

    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    # The legend's words are buttons on the screen.
    buttons = page.locator("button:not(.legend-item), .button").all()
    assert not [each for each in buttons if each.is_visible()]
    charts = [each for each in page.query_selector_all("canvas") if each.is_visible()]
    assert charts or name == "spend"
    for canvas in charts:
        box = canvas.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 700
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert window.complaints == []


@pytest.mark.parametrize("name", ["run", "compare"])
def test_charts_that_were_drawn_for_a_wide_window_fit_the_paper(visit, pair, name):
    """The browser tells that it prints while the page still has the window's width, and doesn't
    wait until the charts have followed."""
    page = visit(1440).go(_addresses(pair)[name])
    page.wait_for_load_state("networkidle")
    page.emulate_media(media="print")

    charts = page.evaluate(
        """() => {
            window.dispatchEvent(new Event("beforeprint"));
            document.getElementById("page").style.width = "700px";
            const charts = [...document.querySelectorAll("canvas")];
            return charts.filter((canvas) => canvas.checkVisibility()).map((canvas) => {
                const panel = canvas.closest(".panel").getBoundingClientRect();
                const own = canvas.getBoundingClientRect();
                const fits = own.right <= panel.right + 1 && own.bottom <= panel.bottom + 1;
                return { width: own.width, fits, share: own.width / panel.width };
            });
        }"""
    )
    assert charts
    assert all(chart["fits"] for chart in charts), charts
    assert all(chart["share"] > 0.5 and chart["width"] <= 700 for chart in charts), charts


# 720 px is a window of 1440 px at 200 % zoom.
@pytest.mark.parametrize("width", [320, 390, 720, 2560, 3840])
def test_narrow_and_wide_windows_are_used_and_never_scrolled_sideways(visit, pair, width):
    window = visit(width)
    for name, address in _addresses(pair).items():
        page = window.go(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        if name == "report":  # as wide as paper
            continue
        panel = page.evaluate(
            "Math.max(...[...document.querySelectorAll('.panel')].map(p => p.offsetWidth))"
        )
        assert panel >= 0.7 * width, (name, panel)
    assert window.complaints == []

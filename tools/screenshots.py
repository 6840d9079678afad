#!/usr/bin/env python3
"""Takes screenshots of every page, wide and narrow, light and dark, to review before a release.

    .venv/bin/python tools/screenshots.py http://127.0.0.1:8000 SIGN_IN_LINK --to pictures/

Follows the first jobs and runs, the settings and the docs. Reports pages that don't answer, have
browser errors or are wider than their window, with exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
WIDTHS = {"wide": 1440, "narrow": 390}
THEMES = ("light", "dark")
MOST_JOBS = 4
LISTS = {
    "home": "/",
    "jobs": "/jobs/",
    "runs": "/runs/",
    "recommendations": "/recommendations/",
    "savings": "/savings/",
    "spend": "/spend/",
    "failures": "/spend/failures/",
    "budgets": "/budgets/",
    "new-budget": "/budgets/new/",
    "rules": "/rules/",
    "prices": "/prices/",
    "account": "/account/",
    "sessions": "/account/sessions/",
    "two-factor": "/account/two-factor/",
    "new-workspace": "/workspace/new/",
    "docs-api": "/docs/api/",
    "missing": "/no-such-page/",
}
FOLLOWED = {
    "recommendation": ("/recommendations/", "main a[href^='/recommendations/']", 2),
    "rule": ("/rules/", "th a[href^='/rules/']", 1),
    "machine": ("/prices/", "main a[href^='/prices/types/']", 1),
    "budget": ("/budgets/", "main a[href^='/budgets/']:not([href$='/new/'])", 1),
    "settings": ("/settings/", "nav a[href^='/settings/']", 40),
    "docs": ("/docs/", "main a[href^='/docs/']", 40),
}
"""Name: the page with links to others of a kind, which links these are, and how many to follow."""
OF_RUNS = ("what-if", "edit", "training", "report")
OF_JOBS = ("rules", "edit", "compared")
FILES = (".csv", ".json", ".whl")


@dataclass
class Complaints:
    """Problems that no page may have: console messages, foreign requests, horizontal scrolling."""

    host: str
    problems: list[str] = field(default_factory=list)
    page: str = ""
    """The one that is open."""

    def watch(self, page: Page) -> None:
        page.on("console", lambda m: self._console(m.type, m.text))
        page.on("pageerror", lambda error: self.add(f"script: {error}"))
        page.on("request", lambda request: self._request(request.url))

    def measure(self, page: Page) -> None:
        wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if wider > 0:
            self.add(f"{wider} px wider than its window")

    def add(self, problem: str) -> None:
        self.problems.append(f"{self.page}: {problem}")

    def _console(self, kind: str, text: str) -> None:
        is_wanted = self.page.startswith("missing") and "404" in text
        if kind in ("error", "warning") and not is_wanted:
            self.add(f"console: {text}")

    def _request(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme.startswith("http") and parts.netloc != self.host:
            self.add(f"foreign request: {address}")


def main() -> int:
    arguments = _arguments()
    arguments.to.mkdir(parents=True, exist_ok=True)
    complaints = Complaints(urlsplit(arguments.base_url).netloc)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        cookies = _signed_in(browser, arguments)
        for width_name, width in WIDTHS.items():
            for theme in THEMES:
                context = browser.new_context(
                    viewport={"width": width, "height": 900},
                    color_scheme=theme,  # type: ignore[arg-type]
                    storage_state=cookies,
                )
                _pictures(context, arguments, f"{width_name}-{theme}", complaints)
                context.close()
        browser.close()
    for complaint in dict.fromkeys(complaints.problems):
        print(complaint)
    return 1 if complaints.problems else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("base_url")
    parser.add_argument("sign_in_link")
    parser.add_argument("--workspace", help="switch to this one first")
    parser.add_argument("--page", action="append", default=[], help="another one, by its path")
    parser.add_argument("--to", type=Path, default=Path("pictures"))
    return parser.parse_args()


def _signed_in(browser: Browser, arguments: argparse.Namespace):  # type: ignore[no-untyped-def]
    context = browser.new_context()
    page = context.new_page()
    page.goto(arguments.sign_in_link)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda address: "/sign-in/" not in address)
    if arguments.workspace:
        page.locator("summary[title='Switch workspace']").click()
        page.locator(".menu-item", has_text=arguments.workspace).click()
    state = context.storage_state()
    context.close()
    return state


def _pictures(
    context: BrowserContext, arguments: argparse.Namespace, kind: str, complaints: Complaints
) -> None:
    page = context.new_page()
    complaints.watch(page)
    named = [(path.strip("/").replace("/", "-"), path) for path in arguments.page]
    for name, address in [*_pages(page, arguments.base_url), *named]:
        complaints.page = f"{name} ({kind})"
        answer = page.goto(arguments.base_url + address)
        if answer is None or (not answer.ok and name != "missing"):
            complaints.add(f"{address} doesn't answer")
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(300)
        complaints.measure(page)
        page.screenshot(path=arguments.to / f"{name}-{kind}.png", full_page=True)
    page.close()


def _pages(page: Page, base_url: str) -> Iterator[tuple[str, str]]:
    """Name and path of each page: the lists, then what they link to."""
    page.goto(base_url + "/jobs/")
    jobs = _links(page, "th a[href^='/jobs/']")[:MOST_JOBS]
    pages = list(LISTS.items())
    for number, job in enumerate(jobs, start=1):
        page.goto(base_url + job)
        pages.append((f"job-{number}", job))
        pages += [(f"job-{number}-{name}", f"{job}{name}/") for name in OF_JOBS]
        runs = _links(page, "td a[href^='/runs/'], th a[href^='/runs/']")
        several = "&".join(f"run={run.split('/')[2]}" for run in runs[:6])
        pages += [(f"compare-{number}-several", f"/compare/?{several}")] if len(runs) > 2 else []
        for run in runs[:1]:
            pages.append((f"run-{number}", run))
            pages += [(f"run-{number}-{name}", f"{run}{name}/") for name in OF_RUNS]
        pages += [(f"compare-{number}", pair) for pair in _links(page, "a[href^='/compare/']")[:1]]
    for name, (source, selector, most) in FOLLOWED.items():
        page.goto(base_url + source)
        found = [link for link in _links(page, selector) if not link.endswith(FILES)][:most]
        pages += [(_name(name, link, number), link) for number, link in enumerate(found, start=1)]
    yield from dict(pages).items()


def _name(kind: str, link: str, number: int) -> str:
    """Settings and docs by their own names, rows by number."""
    if kind in ("settings", "docs"):
        return link.strip("/").replace("/", "-")
    return f"{kind}-{number}"


def _links(page: Page, selector: str) -> list[str]:
    addresses = page.eval_on_selector_all(
        selector, "links => links.map(a => a.getAttribute('href').split('#')[0])"
    )
    return list(dict.fromkeys(addresses))


if __name__ == "__main__":
    sys.exit(main())

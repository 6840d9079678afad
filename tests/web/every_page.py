"""Every page that a person can open, found from the URL configuration, and what no page may do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Request, Response

from tests.web import walk

STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
NOBODY_KNOWS = "no-such-secret"
ANSWERS_ITSELF = {"runs:artefact", "agent_wheel"}
"""Files, not pages."""


def addresses(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and address. `arguments`: of the routes; what isn't among them doesn't exist."""
    pages = walk.pages()
    unknown = re.findall(r"<(?:\w+:)?(\w+)>", " ".join(pages.values()))
    filled = dict.fromkeys([*unknown, "other_run_id"], NOBODY_KNOWS) | dict(arguments)
    world = walk.World(None, filled)  # type: ignore[arg-type]
    for name, route in pages.items():
        if "get" in walk.AUDIENCES[name] and name not in ANSWERS_ITSELF:
            yield name, world.address(name, route)


class Watch:
    """A watch on what pages of one window say in the console, and ask of other hosts."""

    def __init__(self, page: Page, base_url: str) -> None:
        self._page, self._base_url = page, base_url
        self._axe = Axe()
        self._heard: list[str] = []
        page.on("console", lambda m: self._heard.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self._heard.append(str(error)))
        page.on("request", self._requested)

    def problems(self, address: str) -> list[str] | None:
        """Return the problems of a page, or None if there is no page, but a file, or what nobody
        knows.
        """
        kind = self._page.request.get(self._base_url + address)
        is_page = "html" in kind.headers.get("content-type", "")
        if not is_page or (kind.status != 200 and NOBODY_KNOWS in address):
            return None
        if kind.status != 200:
            return [f"{address} answers {kind.status}"]
        self._heard.clear()
        answer: Response | None = self._page.goto(self._base_url + address)
        assert answer is not None
        assert answer.ok, address
        self._page.wait_for_load_state("networkidle")
        found = self._axe.run(self._page, options={"runOnly": STANDARDS}).response["violations"]
        return [*self._heard, *(_told(each) for each in found)]

    def _requested(self, request: Request) -> None:
        if not request.url.startswith((self._base_url, "data:", "blob:")):
            self._heard.append(f"foreign request: {request.url}")


def _told(violation: dict[str, Any]) -> str:
    places = "; ".join(node["html"][:140] for node in violation["nodes"][:4])
    return f"{violation['id']}: {places}"

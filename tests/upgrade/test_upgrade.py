"""A new version opens what a release left on a disk, and answers as it did."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.running_service import Service, manage, wait_until
from tests.upgrade.reads import Answers, Api, answers
from tests.upgrade.uploads import from_document, send
from tests.upgrade.web_server import serving

RELEASES = sorted((Path(__file__).parent / "releases").glob("*.tar.xz"))
ANALYSED_SECONDS = 60

WORDING = {
    "title",
    "help",
    "source",
    "sentence",
    "why",
    "exactly",
    "warnings",
    "markdown",
    "category",
}
"""Fields whose text is made when it is asked for: a release may say the same in other words."""
FIGURE_NAMES = {"name"}
"""The fields of the lines of a comparison: they are wording, too."""
UNSAID = {"change": "", "tone": "neutral"}
"""The values that a line of a comparison may have instead: nothing, where the runs' work
differs."""
NEW_FIGURES = (", without start-up",)
"""Lines of a comparison that releases didn't have."""
OF_RULES = {"version", "default", "low", "high"}
"""The fields of the rules' list: a rule that judges by something else has a later version, and its
parameters may have other defaults and bounds, or be gone. What people have set stays."""
OF_TODAY = {"month", "state", "spent_usd", "unpriced_runs"} | {
    *("forecast_usd", "forecast_low_usd", "forecast_high_usd"),
}
"""Fields of budgets that are about the present month."""


@dataclass(frozen=True)
class Release:
    """An unpacked archive."""

    folder: Path

    def read(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))

    def api(self, url: str) -> Api:
        return Api(url, self.read("facts")["token"])


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Release:
    with tarfile.open(request.param) as packed:
        packed.extractall(tmp_path, filter="data")
    return Release(tmp_path)


pytestmark = pytest.mark.processes


def test_it_answers_as_the_release_did(release: Release) -> None:
    """Migrations change no answer. A worker then judges runs again where rules have changed."""
    before, facts = release.read("answers"), release.read("facts")
    assert manage(release.folder / "data", "migrate", "--verbosity", "0").wait(120) == 0
    with serving(release.folder) as url:
        after = answers(release.api(url), facts["runs"], facts["months"])
    assert set(before) <= set(after)
    differences = [d for address in before for d in _differences(address, before, after)]
    assert differences == []


@pytest.fixture
def service(release: Release) -> Iterator[Service]:
    service = Service(release.folder / "data").start()
    yield service
    service.stop()


def test_the_uploads_of_its_agents_are_taken_and_judged(release: Release, service: Service) -> None:
    uploads = [from_document(document) for document in release.read("unsent")]
    token = (release.folder / "data" / "agent-token").read_text()
    for upload in uploads:
        send(service.url, token, upload)
    api, address = release.api(service.url), uploads[0].path

    def analysed() -> bool:
        return bool(api.get(address)["analysis_is_final"])

    wait_until(analysed, ANALYSED_SECONDS, "the run of an older agent is analysed")
    run = api.get(address)
    assert run["state"] == "finished"
    assert run["cost_usd"] is not None
    assert run["money"]["verdict"] is not None


def _differences(address: str, before: Answers, after: Answers) -> Iterator[str]:
    yield from _different(address, before[address], after[address], _left_out(address))


def _left_out(address: str) -> set[str]:
    path = address.partition("?")[0].removeprefix("/api/v1/")
    own = {"budgets": OF_TODAY, "compare": FIGURE_NAMES, "rules": OF_RULES}
    return WORDING | own.get(path, set())


def _different(place: str, old: Any, new: Any, left_out: set[str]) -> Iterator[str]:
    """Yield every place where `new` lacks or changes what `old` has; more keys, rules and figures
    are no difference, nor is the order of rules.
    """
    old, new = _by_name(place, old), _by_name(place, new)
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key not in new:
                yield f"{place}.{key} is gone"
            elif key not in left_out and not (".figures[" in place and new[key] == UNSAID.get(key)):
                yield from _different(f"{place}.{key}", value, new[key], left_out)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _different(f"{place}[{number}]", one, other, left_out)
    elif old != new:
        yield f"{place}: {old!r} became {new!r}"


def _by_name(place: str, value: Any) -> Any:
    """Return findings, rules and their parameters by name, as their order may change; figures
    without new ones.
    """
    if place.endswith(".figures"):
        return [line for line in value if not line["name"].endswith(NEW_FIGURES)]
    if place.endswith(".parameters"):
        value = [each for each in value if each["set_by"] != "preset"]
    key = "name" if place.endswith(".parameters") else "rule"
    is_named = isinstance(value, list) and all(isinstance(x, dict) and key in x for x in value)
    return {each[key]: each for each in value} if is_named and value else value

"""Every page in a real browser, with sample data and in an empty workspace, in both themes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.sample_workspace.opened import SampleWorkspace
from tests.web.every_page import Watch, addresses

CHROMIUM = Path("/usr/bin/chromium")
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.timeout(900),
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


@pytest.fixture(scope="module")
def arguments(sample: SampleWorkspace) -> dict[str, Any]:
    """Rows of the sample workspace: a job with an open regression, its newest runs, its advice."""
    jobs = sample.api("jobs?limit=100")["jobs"]
    [job] = [each for each in jobs if each["name"] == "street-scenes/train.py"]
    runs = sample.api(f"jobs/{job['id']}/runs")["runs"]
    [advised] = sample.api(f"jobs/{job['id']}/recommendations")["recommendations"]
    [budget] = sample.api("budgets")["budgets"]
    return {
        "job_uuid": job["id"],
        "run_id": runs[0]["id"],
        "other_run_id": runs[-1]["id"],
        "number": runs[0]["number"],
        "recommendation_uuid": advised["id"],
        "budget_uuid": budget["id"],
        "rule_id": "input_bound",
        "instance_type": "g5.12xlarge",
        "name": "ledger",
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("workspace", ["Sample data", "My workspace"])
def test_nothing_stands_in_the_way_of_anybody(chromium, sample, arguments, workspace, theme):
    sample.switch(workspace)
    context = chromium.new_context(color_scheme=theme, viewport={"width": 1440, "height": 900})
    context.add_cookies(
        [
            {"name": each.name, "value": str(each.value), "url": sample.service.url}
            for each in sample.person.session.cookies
        ]
    )
    watch, wrong, seen = Watch(context.new_page(), sample.service.url), {}, 0
    for name, address in addresses(arguments if workspace == "Sample data" else {}):
        problems = watch.problems(address)
        seen += problems is not None
        if problems:
            wrong[name] = problems
    context.close()
    sample.switch("Sample data")
    assert not wrong, "\n".join(f"{name}: {each}" for name, own in wrong.items() for each in own)
    assert seen > 40

"""Counts the clicks that people need for what they come for. Filling in and ticking is not
counted.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.running_service import Service, wait_until
from tests.sample_workspace.opened import CHROMIUM, SampleWorkspace

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no {CHROMIUM}"),
]
PATIENCE_SECONDS = 90
"""The seconds for what the agent has to do first."""


@dataclass
class Walk:
    """A walk from the home page; `clicks` counts."""

    page: Page
    clicks: int = 0

    def click(self, target: Locator) -> None:
        target.click()
        self.clicks += 1

    def to(self, name: str) -> None:
        """Go to a page by the bar at the top."""
        bar = self.page.get_by_role("navigation", name="Main")
        self.click(bar.get_by_role("link", name=name, exact=True))

    def took(self, what: str, clicks: int) -> None:
        print(f"{what}: {self.clicks} clicks")  # noqa: T201
        assert self.clicks == clicks


@pytest.fixture
def walk(sample: SampleWorkspace, chromium) -> Iterator[Walk]:
    context = sample.window(chromium)
    page = context.new_page()
    page.goto("/")
    yield Walk(page)
    context.close()


def test_the_dearest_job_and_why(walk):
    walk.click(walk.page.get_by_role("link", name="Give the unused GPUs work"))
    expect(walk.page.get_by_role("heading", level=1)).to_contain_text("unused GPUs")
    expect(walk.page.get_by_role("main")).to_contain_text("translation/train.py")
    expect(walk.page.get_by_role("main")).to_contain_text("3 of 4 GPUs")
    walk.took("the dearest job and why", 1)


def test_six_runs_are_compared(walk):
    walk.to("Jobs")
    walk.click(walk.page.get_by_role("link", name="street-scenes/train.py").first)
    for number in range(6, 12):
        walk.page.get_by_role("checkbox", name=f"Select run {number}", exact=True).check()
    walk.click(walk.page.get_by_role("button", name="Compare", exact=True))
    expect(walk.page.get_by_role("columnheader", name="#11")).not_to_have_count(0)
    walk.took("six runs compared, after six ticks", 3)


def test_why_the_last_run_was_dearer_than_the_last_good_one(walk):
    walk.click(walk.page.get_by_role("link", name="street-scenes/train.py").first)
    walk.click(walk.page.get_by_role("link", name="Compare with #8, the last good run"))
    expect(walk.page.get_by_role("heading", level=1)).to_contain_text("#8")
    expect(walk.page.get_by_role("main")).to_contain_text("data")
    walk.took("why the last run was dearer than the last good one", 2)


def test_one_change_is_applied_and_later_seen_as_verified(walk, sample):
    """The same recommendation all the way: it is proven by a run that is uploaded in between. That
    ends the job's regression, so this test comes after those of it, and before rules change."""
    job = "street-scenes/train.py"
    walk.click(walk.page.get_by_role("link", name="Load data in parallel"))
    recommendation, page = walk.page.url, walk.page.get_by_role("main")
    expect(page).to_contain_text(job)
    walk.click(walk.page.get_by_role("button", name="Copy how to apply").first)
    sample.run_again(job, workers=12, wait_seconds=0.12)
    wait_until(lambda: _proven(sample, job), PATIENCE_SECONDS, "it is verified")
    walk.to("Savings")
    followed = walk.page.get_by_role("row", name=job).filter(has_text="Load data in parallel")
    walk.click(followed.get_by_role("link", name="Load data in parallel"))
    assert walk.page.url == recommendation
    expect(page).to_contain_text("verified")
    expect(page).to_contain_text("proven by run #12")
    walk.took("the one change, applied and later seen as verified", 4)


def test_a_rule_is_changed_after_a_preview(walk):
    walk.to("Rules")
    walk.click(walk.page.get_by_role("link", name="Thresholds"))
    walk.page.get_by_label("Preset").select_option("safe")
    expect(walk.page.get_by_role("heading", name="Preview")).to_be_visible()
    expect(walk.page.get_by_role("status")).to_contain_text("nothing is saved yet")
    walk.click(walk.page.get_by_role("button", name="Save").first)
    expect(walk.page.get_by_role("main")).to_contain_text("Saved.")
    walk.took("a rule changed with a preview", 3)


def test_a_typo_in_the_machine_is_caught(walk, sample):
    [job] = [e for e in sample.api("jobs?limit=100")["jobs"] if e["name"].startswith("captions")]
    [run, *_] = sample.api(f"jobs/{job['id']}/runs")["runs"]
    walk.page.goto(f"/runs/{run['id']}/edit/")
    walk.page.get_by_label("Instance type").fill("c5.lrage")
    walk.click(walk.page.get_by_role("button", name="Save and price again"))
    expect(walk.page.get_by_role("alert")).to_contain_text("Did you mean c5.large")
    assert sample.api(f"runs/{run['id']}")["cost_usd"] == run["cost_usd"]
    walk.took("a typo in the machine caught", 1)


def test_a_first_run_from_the_sign_in_link(chromium, tmp_path):
    service = Service(tmp_path / "data").start()
    context = chromium.new_context(base_url=service.url)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    walk = Walk(context.new_page())
    walk.page.goto(service.sign_in_link)
    walk.click(walk.page.get_by_role("button", name="Sign in"))
    walk.click(walk.page.get_by_role("button", name="Create a token"))
    walk.click(walk.page.get_by_role("button", name="Copy"))
    expect(walk.page.get_by_role("button", name="Copied")).to_be_visible()
    command = walk.page.evaluate("navigator.clipboard.readText()")
    assert _train(tmp_path, command) == 0
    seen = PATIENCE_SECONDS * 1000
    expect(walk.page.get_by_role("heading", name="Needs attention")).to_be_visible(timeout=seen)
    expect(walk.page.get_by_role("main")).to_contain_text("train.py")
    walk.took("a first run from the sign-in link", 3)
    context.close()
    service.stop()


def test_the_month_by_team_is_exported(walk, tmp_path):
    walk.to("Spend")
    walk.click(walk.page.get_by_role("link", name="Tag", exact=True))
    with walk.page.expect_download() as download:
        walk.click(walk.page.get_by_role("link", name="CSV"))
    file = tmp_path / "month.csv"
    download.value.save_as(file)
    assert "language" in Path(file).read_text()
    walk.took("the month by team exported", 3)


def test_what_stopping_means_is_told_without_scripts(sample, chromium):
    context = sample.window(chromium, scripts=False)
    page = context.new_page()
    page.goto("/")
    page.get_by_role("button", name=re.compile("^Stop transcripts")).click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("SIGTERM")
    question.get_by_role("button", name="Cancel").click()
    expect(question).to_have_count(0)
    context.close()


def test_a_running_run_is_profiled_and_then_stopped(walk, sample):
    question = walk.page.get_by_role("dialog")
    walk.click(walk.page.get_by_role("button", name=re.compile("^Profile transcripts")))
    walk.click(question.get_by_role("button", name="Profile 5 steps"))
    expect(walk.page.get_by_role("main")).to_contain_text("Profile: requested by")
    walk.took("a running run profiled", 2)
    walk.page.goto("/")
    walk.clicks = 0
    walk.click(walk.page.get_by_role("button", name=re.compile("^Stop transcripts")))
    expect(question).to_contain_text("SIGTERM")
    walk.click(question.get_by_role("button", name="Stop the run"))
    walk.took("a running run stopped, with what happens told first", 2)
    state = f"runs/{sample.live_run}"
    wait_until(lambda: sample.api(state)["state"] == "stopped", PATIENCE_SECONDS, "it has stopped")


def _train(folder: Path, command: str) -> int:
    """Run the command as copied, in a folder with a script of its name."""
    (folder / "train.py").write_text("import time\ntime.sleep(12)\n")
    commands = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    state = {"TRIMTAB_STATE_DIR": str(folder / "spool")}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=os.environ | commands | state, timeout=120
    ).returncode


def _proven(sample: SampleWorkspace, name: str) -> bool:
    [job] = [each for each in sample.api("jobs?limit=100")["jobs"] if each["name"] == name]
    advised = sample.api(f"jobs/{job['id']}/recommendations")["recommendations"]
    return "verified" in [each["state"] for each in advised]

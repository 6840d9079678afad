"""Every page in a real browser, with sample data and in an empty workspace, in both themes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sample_workspace.opened import CHROMIUM, SampleWorkspace
from tests.web.every_page import Watch, addresses

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no {CHROMIUM}"),
]

FEWEST = 35
"""Pages that every workspace has."""


@pytest.fixture(scope="module")
def arguments(sample: SampleWorkspace) -> dict[str, Any]:
    """Return rows of the sample workspace: a job with an open regression, its newest runs, its
    advice.
    """
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
    context = sample.window(chromium, theme)
    watch, wrong, seen = Watch(context.new_page(), sample.service.url), {}, 0
    for name, address in addresses(arguments if workspace == "Sample data" else {}):
        problems = watch.problems(address)
        seen += problems is not None
        if problems:
            wrong[name] = problems
    context.close()
    sample.switch("Sample data")
    assert not wrong, "\n".join(f"{name}: {each}" for name, own in wrong.items() for each in own)
    assert seen >= FEWEST

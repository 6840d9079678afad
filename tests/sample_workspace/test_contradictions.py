"""No page of the sample workspace contradicts itself, and pages agree on what they all show."""

from __future__ import annotations

import re

import pytest

from tests.sample_workspace.opened import SampleWorkspace
from tests.web.claims import USD, contradictions, figures_of, lines_of

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("browser"),
]
LEAST_RUNS, LEAST_FIGURES = 80, 1500
LISTS = ("/", "/jobs/", "/recommendations/", "/savings/", "/spend/", "/budgets/")


def test_no_page_contradicts_itself(sample: SampleWorkspace) -> None:
    jobs = sample.api("jobs?limit=100")["jobs"]
    runs = [
        run["id"]
        for job in jobs
        for run in sample.api(f"jobs/{job['id']}/runs?limit=100")["runs"]
        if run["id"] != sample.live_run
    ]
    pages = [f"/runs/{run}/{part}" for run in runs for part in ("", "report/")]
    pages += [f"/jobs/{job['id']}/" for job in jobs]
    wrong, count = [], 0
    for address in (*LISTS, *pages):
        page = sample.page(address)
        count += len(figures_of(page))
        wrong += [f"{address}: {each}" for each in contradictions(page)]
    print(f"{len(LISTS) + len(pages)} pages, {count} figures compared, {len(wrong)} unequal")  # noqa: T201
    assert not wrong, "\n".join(wrong)
    assert len(runs) >= LEAST_RUNS
    assert count >= LEAST_FIGURES


def test_pages_agree_on_what_could_still_be_saved(sample: SampleWorkspace) -> None:
    def told(address: str, pattern: str) -> str:
        found = re.search(pattern, "\n".join(lines_of(sample.page(address))))
        assert found is not None, address
        return found[1]

    shown = {
        told("/", rf"Open savings, per month\n({USD})"),
        told("/savings/", rf"Open, per month\n({USD})"),
        told("/recommendations/", rf"Open: ({USD}) a month"),
        told("/jobs/", rf"\| \d+ jobs [^\n]*\| ({USD}) \|"),
    }
    assert len(shown) == 1

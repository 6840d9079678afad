"""Some pages of a workspace with two runs in a real browser; all of them are in
`tests/sample_workspace`."""

from __future__ import annotations

import pytest

from tests.web.every_page import Watch, addresses
from tests.web.test_browser import chromium, pair, pytestmark, visit  # noqa: F401 - fixtures

PARTS = 12


@pytest.mark.sampled(8)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_stands_in_the_way_of_anybody(visit, pair, part, theme):  # noqa: F811
    a, b = pair
    rows = {"run_id": a.pk, "other_run_id": b.pk, "job_uuid": a.job.uuid, "number": a.number}
    rows["node_number"] = 1
    rows |= {"recommendation_uuid": a.recommendations.get().uuid, "rule_id": "input_bound"}
    rows |= {"instance_type": "c5.large", "name": "ledger"}
    window = visit(1440, theme)
    watch = Watch(window.page, window.base_url)
    wrong = {
        name: problems
        for name, address in list(addresses(rows))[part::PARTS]
        if (problems := watch.problems(address))
    }
    assert wrong == {}

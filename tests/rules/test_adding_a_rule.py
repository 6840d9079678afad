"""A rule needs two files, as docs/development/add-a-rule.md says: tried in a copy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import scratch

RULE = '''\
"""The network carries almost nothing.

## What it checks
The mean of the received bytes a second.

## Why it costs money
A fast network is paid for.

## When it fires
Below `fewest_bytes_per_second`.

## When it is wrong
When the data is on a local disk.

## How to fix it
Choose a smaller network.

## Parameters
`fewest_bytes_per_second`.

## Sources
Ours.
"""

from rules.category import Category
from rules.evidence import percentile, rate
from rules.frame import RunFrame
from rules.rule import Numbers, Parameter, Rule, Values, Verdict


def measure(frame: RunFrame, values: Values) -> Numbers:
    nodes = frame.nodes.values()
    rates = [rate(n.series("net.received_bytes_total"), frame.resolution_seconds) for n in nodes]
    medians = [median for each in rates if (median := percentile(each, 50)) is not None]
    return Numbers({"received_bytes_per_second": max(medians, default=None)})


def judge(numbers: Numbers, values: Values) -> Verdict:
    received = numbers.get("received_bytes_per_second")
    if received is None:
        return Verdict("insufficient_data", "Missing: the network.")
    state = "fired" if received < values["fewest_bytes_per_second"] else "passed"
    return Verdict(state, f"The median was {received:.0f} B/s.")


RULE = Rule(
    id="quiet_network",
    title="The network is hardly used",
    category=Category("network", "Use of the network", 55),
    version=1,
    needs=("net.received_bytes_total",),
    parameters=(
        Parameter("fewest_bytes_per_second", "B/s", 1000, 0, 1e9, "Fires below", "ours"),
    ),
    measure=measure,
    judge=judge,
)
'''
TEST = '''\
"""`quiet_network`: a network that carries almost nothing."""

import numpy as np

from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "quiet_network"


def test_it_fires_without_any_traffic() -> None:
    node = f.node(series=f.samples(60, net__received_bytes_total=5.0))
    assert judged(RULE, f.run(node)).verdict.state == "fired"


def set_up(world: World, factor: float) -> None:
    def change(node: Node) -> None:
        node.series["net.received_bytes_total"] = np.arange(len(node.times)) * 1000 / factor

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, confounders.SIMPLE)
'''
ADDED = {
    "rules/catalogue/quiet_network.py": RULE,
    "tests/rules/test_quiet_network.py": TEST,
}
PAGES = "tests/web/test_rules_pages.py"
HELD_TO = (
    *(f"tests/rules/test_{name}.py" for name in ("engine", "categories", "presets")),
    "tests/rules/test_scenarios.py",
    "tests/rules/test_quiet_network.py",
    PAGES,
)
PASSED = (
    "tests/rules/test_engine.py::test_it_judges_by_every_rule_of_the_catalogue",
    "tests/rules/test_engine.py::test_every_rule_documents_itself[quiet_network]",
    "tests/rules/test_categories.py::test_every_rule_is_in_one_category_and_an_id_means_one_category",
    "tests/rules/test_presets.py::test_every_preset_is_within_the_bounds[quiet_network]",
    "tests/rules/test_scenarios.py::test_it_fires_beyond_its_threshold_and_not_below[quiet_network]",
    "tests/rules/test_quiet_network.py::test_it_fires_without_any_traffic",
    f"{PAGES}::test_every_rule_has_a_page_with_all_of_its_sections_and_parameters",
)
"""The last walks the list of rules, with its categories, and the page of each."""


@pytest.mark.long
def test_a_rule_with_a_new_category_takes_two_files(tmp_path: Path) -> None:
    scratch.copy(tmp_path)
    for path, text in ADDED.items():
        (tmp_path / path).write_text(text)
    report = scratch.pytest(tmp_path, "-k", "quiet_network or every", *HELD_TO).stdout
    for name in PASSED:
        assert f"PASSED {name}\n" in report, report
    bench = ("-m", "bench.rules_scenarios", "--check", "--rule", "quiet_network", "--count", "4")
    done = scratch.python(tmp_path, *bench)
    assert re.search(r"^quiet_network +4 +4 +1.000 +1.000$", done.stdout, re.M), done.stderr

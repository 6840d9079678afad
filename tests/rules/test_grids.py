"""No verdict and no label depends on how a run lies on the grid on which it is read.

Verdicts are compared outside of a band of a tenth around each threshold: within it, chance decides
which side of it the samples of a second lie on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

from rules.category import TIME
from rules.engine import Judgement, evaluate, rejudge
from rules.evidence import is_counter
from rules.frame import NodeFrame, RunFrame
from rules.ledger import ledger
from rules.registry import all_rules
from rules.rule import Rule
from tests.rules.scenarios.labelled import Scenario, labelled
from tests.rules.scenarios.registry import SCENARIOS
from tests.rules.scenarios.stored import Memory, Stored, stored, without_raw_samples

SEED, SAMPLED_SECONDS = 20261122, 0.5
BAND, LEDGER_SHARE = 0.1, 0.005
GROWTH = ("gpu_memory_increase", "host_memory_leak")
ENDINGS = ("session_end", "process_exit")
RULES = list(all_rules().values())
RunOf = Callable[[Scenario, bool], Stored]
LONG = pytest.mark.long
pytestmark = pytest.mark.sampled(8)
SAMPLED = [each for each in SCENARIOS if each.rule_id != "checkpoint_interval"]
"""The other one's runs are months of eight nodes, judged by their events alone."""


def scenarios(among: list[Scenario]) -> pytest.MarkDecorator:
    """Group the scenarios: one worker has all tests of a scenario, whose runs are made once."""
    return pytest.mark.parametrize(
        "scenario",
        [
            pytest.param(
                each, id=each.rule_id, marks=pytest.mark.xdist_group(f"grids of {each.rule_id}")
            )
            for each in among
        ],
    )


EVERY_SCENARIO = scenarios(SAMPLED)
EITHER_SIDE = pytest.mark.parametrize(
    "fires", [pytest.param(True, id="fires"), pytest.param(False, id="passes")]
)


@pytest.fixture(scope="module")
def run_of() -> RunOf:
    """Return a run beyond a rule's threshold, or one below it, in a store."""
    made: dict[tuple[str, bool], Stored] = {}

    def run(scenario: Scenario, fires: bool) -> Stored:
        key = scenario.rule_id, fires
        if key not in made:
            beyond, below = labelled(scenario, SEED, 1, SAMPLED_SECONDS)
            made[key] = stored((beyond if fires else below).frame, Memory())
        return made[key]

    return run


@EVERY_SCENARIO
@EITHER_SIDE
@pytest.mark.parametrize(
    "resolutions", [(1.0, 10.0), pytest.param((2.0, 5.0), marks=LONG)], ids=["", "long"]
)
def test_no_verdict_and_no_label_depends_on_the_width_of_the_cells(
    scenario: Scenario, fires: bool, resolutions: tuple[float, ...], run_of: RunOf
) -> None:
    run = run_of(scenario, fires)
    sampled = run.frame.resolution_seconds
    finest = run.read(sampled)
    expected = stable_states(finest)
    rules = [rule for rule in RULES if rule.id in expected]
    assert (expected[scenario.rule_id] == "fired") == fires
    for resolution in resolutions:
        frame = run.read(max(resolution, sampled))
        assert states(frame, rules) == expected
        assert_same_ledger(frame, finest)


@EVERY_SCENARIO
@pytest.mark.parametrize("shift_seconds", [3.7, pytest.param(0.25, marks=LONG)])
def test_no_verdict_depends_on_where_the_first_cell_begins(
    scenario: Scenario, shift_seconds: float, run_of: RunOf
) -> None:
    run = run_of(scenario, True)
    frame, later = run.read(10.0), run.read(10.0, shift_seconds)
    expected = stable_states(frame)
    rules = [rule for rule in RULES if rule.id in expected and rule.category != TIME]
    assert states(later, rules) == {rule.id: expected[rule.id] for rule in rules}
    assert states(later, [all_rules()[scenario.rule_id]]) == {scenario.rule_id: "fired"}


@EVERY_SCENARIO
def test_the_order_of_the_nodes_changes_nothing(scenario: Scenario, run_of: RunOf) -> None:
    frame = run_of(scenario, True).frame
    turned = replace(frame, nodes=dict(reversed(frame.nodes.items())))
    assert states(turned, RULES) == states(frame, RULES)
    assert ledger(turned).node_seconds() == pytest.approx(ledger(frame).node_seconds())


@scenarios([each for each in SAMPLED if all_rules()[each.rule_id].category != TIME])
def test_a_run_twice_as_long_with_the_same_content_has_the_same_verdicts(
    scenario: Scenario, run_of: RunOf
) -> None:
    """Rules about time judge when something happened: there is one start and one end. And memory
    that grows and starts again from its first value hasn't grown without end."""
    frame = run_of(scenario, True).frame
    expected = stable_states(frame)
    alike = [rule for rule in RULES if rule.id in expected and rule.category != TIME]
    rules = [rule for rule in alike if rule.id not in GROWTH]
    assert states(twice(frame), rules) == {rule.id: expected[rule.id] for rule in rules}


def test_an_idle_node_of_another_run_changes_nothing(run_of: RunOf) -> None:
    run = run_of(SAMPLED[0], True)
    alone = run.read(10.0)
    stored(idle(run.frame), run.store)
    beside = run.read(10.0)
    assert states(beside, RULES) == states(alone, RULES)
    assert ledger(beside) == ledger(alone)


@EVERY_SCENARIO
@EITHER_SIDE
@pytest.mark.parametrize("resolution", [30.0, pytest.param(60.0, marks=LONG)])
def test_histograms_are_enough_for_every_verdict(
    scenario: Scenario, fires: bool, resolution: float, run_of: RunOf
) -> None:
    """Raw samples are deleted, and cells of half a minute and more are read from tiers of 10 s."""
    run = without_raw_samples(run_of(scenario, fires))
    state = states(run.read(resolution), [all_rules()[scenario.rule_id]])[scenario.rule_id]
    assert (state == "fired") == fires


@EVERY_SCENARIO
def test_no_rule_and_no_label_reads_the_means_of_cells(scenario: Scenario, run_of: RunOf) -> None:
    frame = run_of(scenario, True).read(10.0)
    nodes = {
        key: replace(node, samples=node.samples.where(node.samples.isna(), 12_345.0))
        for key, node in frame.nodes.items()
    }
    other = replace(frame, nodes=nodes)
    assert numbers(other) == numbers(frame)
    assert ledger(other) == ledger(frame)


def numbers(frame: RunFrame) -> dict[str, dict[str, float | None]]:
    return {each.rule_id: dict(each.numbers.values) for each in evaluate(frame, {})}


def states(frame: RunFrame, rules: list[Rule]) -> dict[str, str]:
    return {each.rule_id: each.verdict.state for each in evaluate(frame, {}, rules)}


def stable_states(frame: RunFrame) -> dict[str, str]:
    """Return the verdicts of the rules whose verdict on the run is outside of the band."""
    pairs = zip(RULES, evaluate(frame, {}), strict=True)
    return {rule.id: each.verdict.state for rule, each in pairs if is_stable(each, rule)}


def is_stable(judgement: Judgement, rule: Rule) -> bool:
    """Return whether every threshold could be a tenth lower or higher without another verdict."""
    found = {judgement.verdict.state}
    for parameter in rule.parameters:
        if parameter.measured or parameter.choices or parameter.whole:
            continue
        for factor in (1 - BAND, 1 + BAND):
            near = judgement.values[parameter.name] * factor
            near = min(max(near, parameter.low), parameter.high)
            values = {**judgement.values, parameter.name: near}
            found.add(rejudge(rule, judgement.numbers, values).verdict.state)
    return len(found) == 1


def assert_same_ledger(frame: RunFrame, expected: RunFrame) -> None:
    """Check that each label is within half a percent of the run."""
    found, wanted = ledger(frame).node_seconds(), ledger(expected).node_seconds()
    whole = sum(wanted.values())
    assert sum(found.values()) == pytest.approx(whole)
    for label in found.keys() | wanted.keys():
        difference = found.get(label, 0.0) - wanted.get(label, 0.0)
        assert abs(difference) <= LEDGER_SHARE * whole, (label, difference, whole)


def twice(frame: RunFrame) -> RunFrame:
    length = frame.duration_seconds
    nodes = {key: _node_twice(node, length) for key, node in frame.nodes.items()}
    return replace(frame, duration_seconds=2 * length, nodes=nodes)


def _node_twice(node: NodeFrame, length: float) -> NodeFrame:
    again = node.samples.set_axis(node.samples.index + length, axis=0)
    for name in (str(column) for column in node.samples.columns):
        if is_counter(name):
            again[name] += float(node.samples[name].max())
    steps = node.steps.assign(start_seconds=node.steps["start_seconds"] + length)
    events = node.events.assign(time_seconds=node.events["time_seconds"] + length)
    first = node.events[~node.events["kind"].isin(ENDINGS)]
    return replace(
        node,
        samples=pd.concat([node.samples, again]),
        steps=pd.concat([node.steps, steps], ignore_index=True),
        events=pd.concat([first, events], ignore_index=True),
        intervals=((0.0, 2 * length),),
    )


def idle(frame: RunFrame) -> RunFrame:
    """Return another run at the same time, on a node of the same kind that does nothing."""
    node = next(iter(frame.nodes.values()))
    resting = replace(
        node, key="idle", samples=0.0 * node.samples, steps=node.steps[:0], events=node.events[:0]
    )
    return replace(frame, nodes={"idle": resting})

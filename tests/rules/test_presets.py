"""The presets' values, and the parameters with which stored numbers can be judged again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from rules.frame import RunFrame
from rules.parameter import PRESETS, Parameter
from rules.registry import all_rules
from rules.rule import Rule
from tests.rules.scenarios.labelled import Scenario, labelled
from tests.rules.scenarios.registry import SCENARIOS

RULES = list(all_rules().values())
BY_ID = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


@BY_ID
def test_every_preset_is_within_the_bounds(rule: Rule) -> None:
    for preset in PRESETS:
        values = rule.preset_values(preset)
        assert rule.values(values) == values
    assert rule.preset_values("balanced") == rule.values()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.rule_id)
def test_a_bolder_preset_finds_all_that_a_safer_one_finds(scenario: Scenario) -> None:
    rule = all_rules()[scenario.rule_id]
    for run in labelled(scenario, seed=11, count=6):
        states = [_state(rule, run.frame, preset) for preset in ("safe", "balanced", "save")]
        assert states == sorted(states), run


def _state(rule: Rule, frame: RunFrame, preset: str) -> bool:
    values = rule.preset_values(preset)  # type: ignore[arg-type]
    return rule.judge(rule.measure(frame, values), values).state == "fired"


def _other(parameter: Parameter) -> Iterator[float]:
    """Yield values near the default and at both ends."""
    for value in (parameter.default * 0.5, parameter.default * 2, parameter.low, parameter.high):
        allowed = min(max(value, parameter.low), parameter.high)
        yield float(round(allowed)) if parameter.whole or parameter.choices else allowed


@pytest.mark.sampled(4)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.rule_id)
def test_what_is_not_declared_as_measured_changes_no_number(scenario: Scenario) -> None:
    """Numbers of one value may then be judged by another without reading a sample."""
    rule = all_rules()[scenario.rule_id]
    for run in labelled(scenario, seed=3, count=2):
        before = rule.measure(run.frame, rule.values()).to_document()
        for parameter in rule.parameters:
            if not parameter.measured:
                for value in _other(parameter):
                    after = rule.measure(run.frame, rule.values({parameter.name: value}))
                    assert after.to_document() == before, parameter.name


def test_a_preset_leaves_alone_what_it_says_nothing_of() -> None:
    parameter = replace(RULES[0].parameters[0], save=None, safe=None)
    assert {parameter.of_preset(preset) for preset in PRESETS} == {parameter.default}

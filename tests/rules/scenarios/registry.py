"""Finds the scenarios: `SCENARIO` in the test file of each rule."""

from __future__ import annotations

import importlib

from rules.registry import all_rules
from tests.rules.scenarios.labelled import Scenario


def _scenario_of(rule_id: str) -> Scenario | None:
    """Return what tests/rules/test_ID.py declares; None if the rule never fires."""
    scenario: Scenario | None = importlib.import_module(f"tests.rules.test_{rule_id}").SCENARIO
    return scenario


_BY_RULE = {rule_id: _scenario_of(rule_id) for rule_id in all_rules()}
SCENARIOS = tuple(scenario for scenario in _BY_RULE.values() if scenario is not None)
NEVER_FIRES = tuple(rule_id for rule_id, scenario in _BY_RULE.items() if scenario is None)

"""Findings and the ledger tell the same of a run: no waste without time that it explains."""

from __future__ import annotations

import pytest

from rules.engine import Judgement, evaluate
from rules.frame import RunFrame
from rules.ledger import ledger
from rules.ledger_labels import LABELS, NO_WASTE
from rules.registry import all_rules
from rules.rule import Rule
from tests.rules.scenarios.labelled import Scenario, labelled
from tests.rules.scenarios.registry import SCENARIOS

SEED, COUNT = 20261123, 3
TOLERANCE = 0.005
"""Of the run: as exact as labels are on different grids."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.rule_id)
def test_no_finding_wastes_more_than_the_labels_that_it_explains(scenario: Scenario) -> None:
    for run in labelled(scenario, SEED, COUNT):
        shares = shares_of_known_time(run.frame)
        for judgement in fired(run.frame):
            explained = sum(shares.get(label, 0.0) for label in labels_of(judgement))
            wasted = judgement.verdict.waste_seconds_high / run.frame.duration_seconds
            assert wasted <= explained + TOLERANCE, (judgement.rule_id, run.confounder, shares)


@pytest.mark.parametrize("rule", all_rules().values(), ids=lambda rule: rule.id)
def test_a_rule_explains_labels_of_waste_and_each_once(rule: Rule) -> None:
    assert set(rule.explains) <= set(LABELS) - NO_WASTE
    assert len(set(rule.explains)) == len(rule.explains)


def shares_of_known_time(frame: RunFrame) -> dict[str, float]:
    """Each label's share of the time of all nodes. Rules take a gap to be like the rest."""
    seconds = ledger(frame).node_seconds()
    known = sum(seconds.values()) - seconds.pop("gap", 0.0)
    return {label: each / known for label, each in seconds.items()}


def fired(frame: RunFrame) -> list[Judgement]:
    return [each for each in evaluate(frame, {}) if each.verdict.state == "fired"]


def labels_of(judgement: Judgement) -> tuple[str, ...]:
    return all_rules()[judgement.rule_id].explains or LABELS

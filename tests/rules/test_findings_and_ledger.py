"""Findings and the ledger tell the same of a run: no waste without time that it explains."""

from __future__ import annotations

import pytest

from rules.engine import Judgement, evaluate
from rules.frame import RunFrame
from rules.ledger import ledger
from rules.ledger_labels import LABELS
from rules.registry import all_rules
from tests.rules.scenarios.labelled import Scenario, labelled
from tests.rules.scenarios.registry import SCENARIOS

SEED, COUNT = 20261123, 3
TOLERANCE = 0.005
"""The tolerance, as a share of the run: as exact as labels are on different grids."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.rule_id)
def test_no_finding_wastes_more_than_the_labels_that_it_claims(scenario: Scenario) -> None:
    for run in labelled(scenario, SEED, COUNT):
        shares = shares_of_known_time(run.frame)
        for judgement in fired(run.frame):
            explained = sum(shares.get(label, 0.0) for label in labels_of(judgement))
            wasted = judgement.verdict.claimed_seconds_high / run.frame.duration_seconds
            assert wasted <= explained + TOLERANCE, (judgement.rule_id, run.confounder, shares)


def shares_of_known_time(frame: RunFrame) -> dict[str, float]:
    """Return each label's share of the time of all nodes. Rules take what isn't known to be like
    the rest.
    """
    seconds = ledger(frame).node_seconds()
    for unknown in ("gap", "unclassified"):
        seconds.pop(unknown, None)
    known = sum(seconds.values())
    return {label: each / known for label, each in seconds.items()}


def fired(frame: RunFrame) -> list[Judgement]:
    return [each for each in evaluate(frame, {}) if each.verdict.state == "fired"]


def labels_of(judgement: Judgement) -> tuple[str, ...]:
    return all_rules()[judgement.rule_id].claims_on or LABELS

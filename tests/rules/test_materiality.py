"""The materiality floor: no rule about waste fires below it, whatever its own thresholds say."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rules.engine import evaluate, rejudge
from rules.frame import RunFrame
from rules.materiality import held_to_floor
from rules.overrides import parse_overrides
from rules.registry import all_rules
from rules.rule import Claim, Numbers, Verdict
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios.labelled import Scenario, labelled
from tests.rules.scenarios.registry import SCENARIOS

RISKS = {"checkpoint_missing", "failed_late", "gpu_errors", "gpu_memory_increase", "hung"}
EVERY_SCENARIO = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.rule_id)


def tail(seconds: float, run_seconds: float) -> RunFrame:
    """Return a run with GPUs that are idle at the end: `idle_tail` fires from 300 s on."""
    busy = f.samples(run_seconds, 10.0, gpu0__busy_pct=90.0)
    busy.loc[busy.index >= run_seconds - seconds] = 0.0
    return f.run(f.node(series=busy, of=f.hardware(gpus=1)), duration=run_seconds, resolution=10.0)


@pytest.mark.parametrize(
    ("tail_seconds", "hours", "state"),
    [(400, 10, "fired"), (400, 12, "passed"), (800, 22, "fired"), (800, 24, "passed")],
)
def test_it_is_a_share_of_the_run(tail_seconds: float, hours: float, state: str) -> None:
    verdict = judged("idle_tail", tail(tail_seconds, 3600 * hours)).verdict
    assert verdict.state == state
    if state == "passed":
        assert "below the materiality floor of 1 %" in verdict.summary
        assert verdict.claimed_seconds_high == 0


@pytest.mark.parametrize(
    ("usd", "least_usd", "state"),
    [(500.0, 10.0, "fired"), (399.0, 10.0, "passed"), (None, 10.0, "fired"), (0.5, 0.0, "fired")],
    ids=["above", "below", "no price", "no floor"],
)
def test_it_is_an_amount_as_well(usd: float | None, least_usd: float, state: str) -> None:
    """400 s of 16,000 s are 2.5 % of the cost."""
    rule = all_rules()["idle_tail"]
    values = {"least_waste_usd": least_usd}
    [judgement] = evaluate(tail(400, 16_000), {rule.id: values}, [rule], usd)
    assert judgement.verdict.state == state
    stored = Numbers.from_document(json.loads(json.dumps(judgement.numbers.to_document())))
    assert rejudge(rule, stored, values, usd).verdict == judgement.verdict


@given(
    share=st.floats(1e-6, 0.2),
    floor=st.floats(1e-3, 20).map(lambda floor: round(floor, 4)) | st.sampled_from([1, 0.5]),
    usd=st.none() | st.floats(1e-3, 1e6),
    least_usd=st.just(0.0) | st.floats(1e-3, 1e6).map(lambda usd: round(usd, 2)),
)
@example(share=0.00996, floor=1, usd=None, least_usd=0.0)
@example(share=0.5, floor=1, usd=1999.96, least_usd=1000.0)
def test_the_sentence_holds_by_its_own_digits(
    share: float, floor: float, usd: float | None, least_usd: float
) -> None:
    fired = Verdict("fired", "It fired.", claims=(Claim(("idle_tail",), 1000 * share, 1.0, 1.0),))
    values = {"least_waste_pct": floor, "least_waste_usd": least_usd}
    held = held_to_floor(fired, Numbers({"run_seconds": 1000.0}), values, usd)
    if held.state == "passed":
        waste, least = map(float, re.findall(r"\d+(?:\.\d+)?", held.summary))
        assert waste < least
        assert waste >= 0.999999 * (share * (usd or 0.0) if "$" in held.summary else 100 * share)


def test_a_job_can_lower_it() -> None:
    frame = tail(400, 12 * 3600)
    assert judged("idle_tail", frame, {"least_waste_pct": 0.5}).verdict.state == "fired"


@EVERY_SCENARIO
def test_no_rule_about_waste_fires_below_it(scenario: Scenario) -> None:
    rule = all_rules()[scenario.rule_id]
    fired = [
        (run.frame, verdict)
        for run in labelled(scenario, 5, 2)
        if (verdict := judged(rule.id, run.frame).verdict).state == "fired"
    ]
    assert fired
    for frame, verdict in fired:
        share = 100 * verdict.claimed_seconds_high / frame.duration_seconds
        if rule.reports_risk:
            assert "least_waste_pct" not in rule.values()
        elif share:
            above = {"least_waste_pct": min(1.01 * share, 100.0)}
            assert share >= 1
            assert judged(rule.id, frame, above).verdict.state == "passed"


def test_what_may_still_be_lost_is_no_waste() -> None:
    assert {rule.id for rule in all_rules().values() if rule.reports_risk} == RISKS


def test_a_finding_without_an_estimate_is_not_small() -> None:
    rule = replace(
        all_rules()["idle_tail"], judge=lambda numbers, values: Verdict("fired", "Somehow.")
    )
    [judgement] = evaluate(tail(400, 16_000), {}, [rule])
    assert judgement.verdict.state == "fired"


def test_one_line_sets_it_for_all_rules() -> None:
    assert parse_overrides(["materiality.least_waste_pct=2.5"]) == {
        "materiality": {"least_waste_pct": 2.5}
    }
    with pytest.raises(ValueError, match="no parameter 'least'; it has least_waste_pct"):
        parse_overrides(["materiality.least=1"])
    with pytest.raises(ValueError, match="outside"):
        parse_overrides(["materiality.least_waste_pct=101"])

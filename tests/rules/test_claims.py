"""The ledger's time is divided among findings: no second twice, and causes before symptoms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.claims import Claim, Directness, Portion, divide
from rules.engine import evaluate
from rules.ledger import ledger
from rules.ledger_labels import LABELS, LEFT_TO_SYMPTOMS
from rules.registry import all_rules
from rules.rule import Rule
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Labelled, Scenario, labelled
from tests.rules.scenarios.registry import SCENARIOS
from tests.rules.scenarios.world import Node, World

TOLD, MEASURED, SYMPTOM = Directness
RULES = [f"rule{number}" for number in range(6)]
SHARES = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted)
SOME_LABELS = st.lists(st.sampled_from(LABELS), min_size=1, max_size=4, unique=True).map(tuple)
CLAIMS = st.builds(
    lambda labels, seconds, shares: Claim(labels, seconds, *shares),
    SOME_LABELS,
    st.floats(0, 4000),
    SHARES,
)
FINDINGS = st.dictionaries(
    st.sampled_from(RULES),
    st.tuples(st.sampled_from(Directness), st.lists(CLAIMS, max_size=3)),
)
HELD = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.dictionaries(st.sampled_from(LABELS), st.floats(0, 3000), max_size=6),
    max_size=3,
)
Findings = dict[str, tuple[Directness, list[Claim]]]
Held = dict[str, dict[str, float]]


def divided(findings: Findings, held: Held, run_seconds: float = 1000.0) -> dict[str, Portion]:
    claims = {rule: own for rule, (_, own) in findings.items()}
    return divide(claims, {rule: d for rule, (d, _) in findings.items()}, held, run_seconds)


@given(FINDINGS, HELD, st.floats(0, 4000))
def test_no_label_and_no_node_is_counted_twice(
    findings: Findings, held: Held, run_seconds: float
) -> None:
    portions = divided(findings, held, run_seconds)
    assert portions.keys() == findings.keys()
    for label in LABELS:
        whole = sum(labels.get(label, 0.0) for labels in held.values())
        got = sum(portion.labels.get(label, 0.0) for portion in portions.values())
        assert got <= whole * (1 + 1e-9)
    for node, labels in held.items():
        got = sum(portion.high.get(node, 0.0) for portion in portions.values())
        assert got <= sum(labels.values()) * (1 + 1e-9)


@given(FINDINGS, HELD, st.floats(1, 4000))
def test_each_gets_at_most_what_it_claims_and_its_fix_gives_back_part_of_that(
    findings: Findings, held: Held, run_seconds: float
) -> None:
    for portion in divided(findings, held, run_seconds).values():
        low, high = sum(portion.low.values()), sum(portion.high.values())
        assert -1e-9 <= low <= high * (1 + 1e-9) + 1e-9
        assert high <= portion.got * (1 + 1e-9) + 1e-9
        assert portion.got <= portion.claimed * (1 + 1e-9) + 1e-9
        took = sum(sum(by_node.values()) for by_node in portion.taken.values())
        assert took + portion.got <= portion.claimed * (1 + 1e-9) + 1e-6


@given(FINDINGS, HELD, st.randoms())
def test_the_order_of_findings_does_not_matter(
    findings: Findings, held: Held, random: Random
) -> None:
    order = list(findings)
    random.shuffle(order)
    assert divided({rule: findings[rule] for rule in order}, held) == divided(findings, held)


@given(FINDINGS, HELD)
def test_symptoms_get_only_what_causes_left(findings: Findings, held: Held) -> None:
    causes = {rule: each for rule, each in findings.items() if each[0] != SYMPTOM}
    with_symptoms, without = divided(findings, held), divided(causes, held)
    for rule in causes:
        assert with_symptoms[rule].got == pytest.approx(without[rule].got)
    whole = sum(portion.got for portion in with_symptoms.values())
    assert whole <= sum(sum(labels.values()) for labels in held.values()) * (1 + 1e-9)


@given(FINDINGS, HELD)
def test_a_finding_is_shown_under_one_that_stands_by_itself_and_knows_more_directly(
    findings: Findings, held: Held
) -> None:
    portions = divided(findings, held)
    for rule, portion in portions.items():
        if portion.under:
            assert portions[portion.under].under == ""
            assert findings[portion.under][0] < findings[rule][0]
            assert (portion.got, dict(portion.high)) == (0, {}), "that one explains it"


@pytest.mark.parametrize(("tail_seconds", "under"), [(360, ""), (620, "tail")])
def test_a_symptom_is_shown_under_causes_that_took_more_than_it_got(
    tail_seconds: float, under: str
) -> None:
    """Time that nobody took, since it explains itself, had counted as taken."""
    held = {"a": {"gpu_idle": 560.0, "idle_tail": tail_seconds, "evaluation": 400.0}}
    idle = Claim(("gpu_idle", "idle_tail", "evaluation"), 560 + tail_seconds + 400, 0.3, 0.7)
    portions = divided(
        {
            "low": (SYMPTOM, [idle]),
            "tail": (MEASURED, [Claim(("idle_tail",), tail_seconds, 0.9, 1)]),
        },
        held,
        run_seconds=sum(held["a"].values()),
    )
    assert portions["low"].under == under
    assert sum(portions["low"].high.values()) == pytest.approx(0 if under else 0.7 * 560)


def test_a_told_cause_takes_its_label_before_a_measured_one() -> None:
    told = TOLD, [Claim(("data_stall",), 200, 0.6, 0.9)]
    measured = MEASURED, [Claim(("data_stall", "gpu_idle"), 240, 0.5, 1.0)]
    portions = divided({"waits": told, "cores": measured}, {"n": {"data_stall": 300}}, 300)
    assert portions["waits"].high == {"n": pytest.approx(180)}
    assert portions["cores"].got == 0, "a hundred of 240 s are left, too few to stand alone"
    assert portions["cores"].taken == {"waits": {"n": pytest.approx(140)}}
    assert portions["cores"].under == "waits"


def test_causes_that_know_equally_directly_share_in_proportion() -> None:
    one, other = ((TOLD, [Claim(("lost",), each, 1, 1)]) for each in (300, 100))
    portions = divided({"one": one, "other": other}, {"n": {"lost": 300}}, 300)
    assert [portions[rule].got for rule in ("one", "other")] == pytest.approx([225, 75])
    assert {portion.under for portion in portions.values()} == {""}


def test_a_claim_is_laid_where_its_label_is_and_priced_there() -> None:
    held = {"a": {"unused_gpu": 300.0, "effective": 700.0}, "b": {"effective": 1000.0}}
    unused = MEASURED, [Claim(("unused_gpu",), 150, 0.5, 1.0)]
    portion = divided({"unused": unused}, held)["unused"]
    assert portion.high == {"a": pytest.approx(300), "b": 0}


@pytest.mark.parametrize("label", sorted(set(LABELS) - LEFT_TO_SYMPTOMS))
def test_a_symptom_never_claims_time_that_explains_itself(label: str) -> None:
    symptom = SYMPTOM, [Claim((label,), 500, 1, 1)]
    assert divided({"low": symptom}, {"n": {label: 1000.0}})["low"].got == 0


@pytest.mark.parametrize(
    "claim",
    [
        (("effective",), -1.0, 0, 1),
        (("effective",), math.inf, 0, 1),
        (("effective",), math.nan, 0, 1),
        (("effective",), 1.0, 0.5, 0.4),
        (("effective",), 1.0, 0.5, 1.1),
        (("nothing",), 1.0, 0.5, 1.0),
        ((), 1.0, 0.5, 1.0),
    ],
)
def test_what_is_no_time_of_a_label_is_no_claim(claim: Sequence[Any]) -> None:
    with pytest.raises(ValueError, match=r"no range|can't be claimed|no labels"):
        Claim(*claim)


@pytest.mark.parametrize("rule", all_rules().values(), ids=lambda rule: rule.id)
def test_a_rule_declares_the_labels_that_it_claims(rule: Rule) -> None:
    assert set(rule.claims_on) <= set(LABELS)
    assert len(set(rule.claims_on)) == len(rule.claims_on)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.rule_id)
def test_findings_claim_declared_labels_and_count_at_most_the_run(scenario: Scenario) -> None:
    for run in labelled(scenario, 8, 2):
        fired = {j.rule_id: j.verdict for j in evaluate(run.frame, {}) if j.verdict.claims}
        directness = {rule: all_rules()[rule].directness for rule in fired}
        claims = {rule: verdict.claims for rule, verdict in fired.items()}
        held, seconds = ledger(run.frame).held_seconds(), run.frame.duration_seconds
        for rule, own in claims.items():
            assert {label for claim in own for label in claim.labels} <= set(
                all_rules()[rule].claims_on
            )
        portions = divide(claims, directness, held, seconds)
        whole = sum(sum(labels.values()) for labels in held.values())
        assert sum(sum(p.high.values()) for p in portions.values()) <= whole * (1 + 1e-9)


def found(run: Labelled) -> dict[str, Portion]:
    frame = run.frame
    fired = {j.rule_id: j.verdict for j in evaluate(frame, {}) if j.verdict.state == "fired"}
    return divide(
        {rule: verdict.claims for rule, verdict in fired.items()},
        {rule: all_rules()[rule].directness for rule in fired},
        ledger(frame).held_seconds(),
        frame.duration_seconds,
    )


def test_waiting_for_data_explains_the_idle_gpu_and_the_room_in_the_batch() -> None:
    def waits(world: World, factor: float) -> None:
        world.wait_share, world.gpu_pct, world.gpu_memory_pct = 0.5, 45.0, 30.0
        world.cpu_pct = 20.0

    run = next(iter(labelled(Scenario("input_bound", waits, (confounders.slow_start,)), 3, 1)))
    portions = found(run)
    assert {"input_bound", "low_gpu_utilization", "batch_size"} <= portions.keys()
    assert portions["low_gpu_utilization"].under == "input_bound"
    assert portions["batch_size"].under == "input_bound"


def test_outliers_that_are_waits_for_data_are_told_by_input_bound_alone() -> None:
    def waits(world: World, factor: float) -> None:
        def change(node: Node) -> None:
            slow = world.random.choice(len(node.steps), len(node.steps) // 25, replace=False)
            longer = node.steps["duration_seconds"].to_numpy(copy=True)
            waited = node.steps["data_wait_seconds"].to_numpy(copy=True)
            waited[slow] += 9 * longer[slow]
            longer[slow] *= 10
            starts = world.begin_seconds + longer.cumsum() - longer
            columns = {"duration_seconds": longer, "data_wait_seconds": waited}
            node.steps = node.steps.assign(start_seconds=starts, **columns)

        world.changes.append(change)

    run = next(iter(labelled(Scenario("input_bound", waits, (confounders.slow_start,)), 3, 1)))
    fired = {j.rule_id for j in evaluate(run.frame, {}) if j.verdict.state == "fired"}
    assert "input_bound" in fired
    assert "step_outlier" not in fired

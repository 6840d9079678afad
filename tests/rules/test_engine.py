"""The engine: every rule is run, and nothing passes if data is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rules.catalogue
from rules.category import TIME
from rules.engine import evaluate, missing_needs, rejudge
from rules.frame import RunFrame
from rules.registry import all_rules
from rules.rule import Claim, Numbers, Rule, Values, Verdict
from tests.rules import frames as f

SECTIONS = (
    "What it checks",
    "Why it costs money",
    "When it fires",
    "When it is wrong",
    "What it claims",
    "What rules it out",
    "How to fix it",
    "Parameters",
    "Sources",
)


def always_passes(numbers: Numbers, values: Values) -> Verdict:
    return Verdict("passed", "Fine.")


def measures_nothing(frame: RunFrame, values: Values) -> Numbers:
    return Numbers({})


def breaks(*_: object) -> Numbers:
    raise ZeroDivisionError("no steps in node n7")


CATALOGUE = Path(rules.catalogue.__path__[0])
CONTENT = Rule("content", "Content", TIME, 1, (), (), measures_nothing, always_passes)
FRAME = f.run(f.node(series=f.samples(10, host__cpu_busy_pct=5.0, gpu0__busy_pct=f.GAP)))


def test_it_judges_by_every_rule_of_the_catalogue() -> None:
    judged = [judgement.rule_id for judgement in evaluate(FRAME, {})]
    assert judged == sorted(file.stem for file in CATALOGUE.glob("[a-z]*.py"))


@pytest.mark.parametrize("broken", [{"measure": breaks}, {"judge": breaks}])
def test_a_rule_that_fails_is_named_and_hides_no_other(
    broken: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    failing = replace(CONTENT, id="failing", **broken)
    first, second = evaluate(FRAME, {}, [failing, CONTENT])
    assert first.verdict.state == "insufficient_data"
    assert "ZeroDivisionError: no steps in node n7" in first.verdict.summary
    assert second.verdict.state == "passed"
    assert "a rule failed" in caplog.text


def test_unacceptable_parameters_are_named_and_hide_no_other_rule() -> None:
    bad = {"cpu_oversized": {"cpu_p95_pct": 400}}
    chosen = (all_rules()[name] for name in ("cpu_oversized", "low_gpu_utilization"))
    first, *others = evaluate(f.run(), bad, chosen)
    assert first.rule_id == "cpu_oversized"
    assert "cpu_p95_pct = 400" in first.verdict.summary
    assert "not_applicable" in {other.verdict.state for other in others}


@pytest.mark.parametrize(
    "need", ["disk.read_bytes_total", "gpu*.busy_pct", "steps", "steps.data_wait", "a.b|c.d"]
)
def test_a_rule_without_what_it_needs_neither_passes_nor_fires(need: str) -> None:
    [judgement] = evaluate(FRAME, {}, [replace(CONTENT, needs=(need,))])
    assert judgement.verdict.state == "insufficient_data"
    assert need.split("|")[0] in judgement.verdict.summary


def test_a_pattern_or_an_alternative_meets_a_need() -> None:
    waits = f.node("n2", f.samples(10, gpu3__busy_pct=1.0), [f.steps(3, wait=0.1)])
    needs = ("gpu*.busy_pct", "steps.data_wait", "steps", "x.y|host.cpu_busy_pct")
    both = f.run(*FRAME.nodes.values(), waits)
    assert missing_needs(both, needs) == ()
    assert missing_needs(FRAME, needs) == needs[:3]


def test_missing_needs_do_not_hide_that_a_rule_does_not_apply() -> None:
    states = {j.rule_id: j.verdict.state for j in evaluate(f.run(f.node()), {})}
    assert states["low_gpu_utilization"] == "not_applicable"


def test_a_rule_that_depends_on_the_rest_of_the_run_waits_for_its_end() -> None:
    waiting = replace(CONTENT, awaits_end=True)
    [live] = evaluate(replace(FRAME, final=False), {}, [waiting])
    [ended] = evaluate(FRAME, {}, [waiting])
    assert (live.verdict.state, ended.verdict.state) == ("insufficient_data", "passed")
    assert "the end of the run" in live.verdict.summary


@pytest.mark.parametrize("waste", [(2.0, 1.0), (-1.0, 1.0), (0.0, float("inf")), (f.GAP, 1.0)])
def test_a_waste_that_is_no_range_is_a_fault_of_its_rule_alone(waste: tuple[float, float]) -> None:
    def boasts(numbers: Numbers, values: Values) -> Verdict:
        return Verdict("fired", "Much.", claims=(Claim(("effective",), 1.0, *waste),))

    first, second = evaluate(FRAME, {}, [replace(CONTENT, judge=boasts), CONTENT])
    assert first.verdict.state == "insufficient_data"
    assert "is no range" in first.verdict.summary
    assert second.verdict.state == "passed"


def test_judging_stored_numbers_again_needs_no_samples() -> None:
    rule = all_rules()["input_bound"]
    frame = f.run(f.node(step_tables=[f.steps(101, wait=0.2)]))
    [first] = evaluate(frame, {}, [rule])
    again = rejudge(rule, first.numbers, {"fire_share_pct": 25})
    assert (first.verdict.state, again.verdict.state) == ("fired", "passed")
    assert first.values_hash != again.values_hash


def test_judging_again_refuses_a_parameter_that_the_rule_does_not_know() -> None:
    with pytest.raises(ValueError, match="no parameter 'fire_share'"):
        rejudge(all_rules()["input_bound"], Numbers({}), {"fire_share": 25})


@pytest.mark.parametrize("rule", all_rules().values(), ids=lambda rule: rule.id)
def test_every_rule_documents_itself(rule: Rule) -> None:
    headings = [line[3:] for line in rule.documentation.splitlines() if line.startswith("## ")]
    assert tuple(headings) == SECTIONS
    for parameter in rule.parameters:
        assert f"`{parameter.name}`" in rule.documentation
        assert parameter.low <= parameter.default <= parameter.high
        assert parameter.unit
        assert parameter.source

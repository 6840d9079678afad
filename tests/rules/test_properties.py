"""Properties of every rule on every run."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rules.category import TIME
from rules.engine import Judgement, evaluate, rejudge
from rules.frame import NodeFrame, RunFrame
from rules.registry import all_rules
from rules.rule import Numbers, Rule, Window
from tests.rules import frames as f

pytestmark = pytest.mark.sampled(3)
EVERY_RULE = pytest.mark.parametrize("rule", all_rules().values(), ids=lambda rule: rule.id)
ABOUT_WORK = pytest.mark.parametrize(
    "rule",
    # Those of `TIME` judge when things happened, so that a later start is another run.
    [rule for rule in all_rules().values() if rule.category != TIME],
    ids=lambda rule: rule.id,
)
QUICK = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LENGTHS = st.sampled_from([0, 1, 25, 60, 130])


@st.composite
def columns(draw: st.DrawFn, length: int, high: float) -> NDArray[Any]:
    """Return a wave within 0..high, some of it unknown."""
    level, swing = draw(st.floats(0, high)), draw(st.floats(0, high))
    values = np.clip(level + swing * np.sin(np.arange(length)), 0, high)
    gap = draw(st.sampled_from([0, 2, 3, 7]))
    return np.where(np.arange(length) % gap == 1, f.GAP, values) if gap else values


@st.composite
def nodes(draw: st.DrawFn, key: str) -> NodeFrame:
    length, gpus = draw(LENGTHS), draw(st.integers(0, 2))
    names = [f"gpu{number}.busy_pct" for number in range(gpus)]
    names += draw(st.sampled_from([[], ["host.cpu_busy_pct"]]))
    series: dict[str, Any] = {name: draw(columns(length, 100.0)) for name in names}
    if draw(st.booleans()):
        series["host.memory_used_bytes"] = draw(columns(length, 32.0 * f.GIB))
    vcpus = draw(st.sampled_from([0, 1, 2, 16]))
    hardware = f.hardware(vcpus=vcpus, gpus=draw(st.sampled_from([gpus, 0])))
    return f.node(key, f.samples(length, **series), draw(tables(length)), of=hardware)


@st.composite
def tables(draw: st.DrawFn, length: int) -> list[pd.DataFrame]:
    wait = st.one_of(st.just(f.GAP), st.floats(0, 1))
    ranks = draw(st.integers(0, 2)) if length else 0
    return [f.steps(length, wait=draw(wait), rank=rank) for rank in range(ranks)]


@st.composite
def runs(draw: st.DrawFn) -> RunFrame:
    drawn = [draw(nodes(key)) for key in ("n1", "n2")[: draw(st.integers(0, 2))]]
    return f.run(*drawn, duration=float(draw(LENGTHS)))


def judged(rule: Rule, frame: RunFrame) -> Judgement:
    return evaluate(frame, {}, [rule])[0]


@ABOUT_WORK
@given(frame=runs(), seconds=st.integers(0, 10_000))
@QUICK
def test_the_verdict_does_not_depend_on_when_the_work_began(
    rule: Rule, frame: RunFrame, seconds: int
) -> None:
    later = f.shifted(frame, float(seconds))
    assert judged(rule, later).verdict == judged(rule, frame).verdict


@EVERY_RULE
@given(frame=runs(), cells=st.integers(1, 500))
@QUICK
def test_unknown_time_around_a_run_changes_nothing(rule: Rule, frame: RunFrame, cells: int) -> None:
    assert judged(rule, f.padded(frame, cells)).verdict == judged(rule, frame).verdict


@EVERY_RULE
@given(frame=runs())
@QUICK
def test_it_never_claims_more_than_the_run_lasted(rule: Rule, frame: RunFrame) -> None:
    verdict = judged(rule, frame).verdict
    assert 0 <= verdict.claimed_seconds_low <= verdict.claimed_seconds_high
    assert verdict.claimed_seconds_high <= frame.duration_seconds
    if verdict.state != "fired":
        assert verdict.claimed_seconds_high == 0


@EVERY_RULE
@given(frame=runs())
@QUICK
def test_no_frame_makes_a_rule_fail(rule: Rule, frame: RunFrame) -> None:
    assert "The rule failed" not in judged(rule, frame).verdict.summary


@EVERY_RULE
@given(frame=runs())
@QUICK
def test_numbers_that_were_stored_as_json_give_the_same_verdict(
    rule: Rule, frame: RunFrame
) -> None:
    first = judged(rule, frame)
    document = json.loads(json.dumps(first.numbers.to_document(), allow_nan=False))
    stored = Numbers.from_document(document)
    assert stored.windows == first.numbers.windows
    assert rejudge(rule, stored).verdict == first.verdict


@cache
def names_of(rule: Rule) -> tuple[str, ...]:
    """Return all numbers that the rule can measure: of two nodes of which everything is known."""
    series = f.samples(
        60,
        host__cpu_busy_pct=20.0,
        host__memory_used_bytes=f.GIB,
        gpu0__busy_pct=40.0,
        gpu1__busy_pct=0.0,
    )
    events = [(0.0, "loader", {"workers": 2})]
    table = [f.steps(60, wait=0.2)]
    both = [f.node(key, series, table, events, of=f.hardware(gpus=2)) for key in ("n1", "n2")]
    return tuple(rule.measure(f.run(*both), rule.values()).values)


ANY_NUMBER = st.one_of(st.none(), st.floats(), st.floats(0, 100), st.floats(0, 1e6))


@EVERY_RULE
@given(data=st.data())
@settings(QUICK, max_examples=100)
def test_judging_never_fails_whatever_the_numbers(rule: Rule, data: st.DataObject) -> None:
    names = [*names_of(rule), "unheard_of"]
    values = data.draw(st.dictionaries(st.sampled_from(names), ANY_NUMBER))
    numbers = Numbers(values, (Window(0, 1),), data.draw(st.sampled_from([(), ("a thing",)])))
    verdict = rule.judge(numbers, rule.values())
    assert verdict.state in ("fired", "passed", "not_applicable", "insufficient_data")
    assert verdict.summary
    assert 0 <= verdict.claimed_seconds_low <= verdict.claimed_seconds_high

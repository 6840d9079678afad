"""A rule does what its page says it claims and what rules it out."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd
import pytest

from rules import told
from rules.claims import Claim, Directness, divide
from rules.declared import IN_WORDS, PRECEDENCE
from rules.frame import NodeFrame, RunFrame
from rules.registry import all_rules
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.test_hung import run as hung_run
from tests.rules.test_hung import stands
from tests.rules.test_idle_notebook import run as session_run
from tests.rules.test_idle_notebook import session
from tests.rules.test_idle_tail import hour, until
from tests.rules.test_unused_gpus import gpus

EVERY_RULE = pytest.mark.parametrize("rule_id", sorted(all_rules()))
FIRED = {
    "hung": hung_run(stands()),
    "idle_tail": hour(until(3000)),
    "idle_notebook": session_run(session(5000)),
    "unused_gpus": f.run(gpus(0.0)),
}
"""A run in which the rule fires, for each rule that told facts exclude."""


def section(rule_id: str, title: str) -> str:
    found = re.search(
        rf"^## {title}\n(.*?)(?=^## )", all_rules()[rule_id].documentation, re.M | re.S
    )
    assert found is not None
    return found[1]


@EVERY_RULE
def test_a_page_names_the_labels_that_the_rule_claims_in_their_order(rule_id: str) -> None:
    rule, text = all_rules()[rule_id], section(rule_id, "What it claims")
    claimed, _, explained = text.partition("It gets no time of these")
    listed = re.compile(r"^- .* \(`(\w+)`\)$", re.M)
    named = listed.findall(claimed), listed.findall(explained)
    assert sorted([*named[0], *named[1]]) == sorted(rule.claims_on)
    assert all(sorted(each, key=rule.claims_on.index) == each for each in named)
    assert all(f"- {IN_WORDS[label]} (" in text for label in rule.claims_on)
    assert (PRECEDENCE[rule.directness] in text) == bool(rule.claims_on)
    if rule.claims_on:
        held = {"n1": dict.fromkeys(rule.claims_on, 10.0)}
        claims = {rule_id: [Claim(rule.claims_on, 1000.0, 1.0, 1.0)]}
        got = divide(claims, {rule_id: rule.directness}, held, 10.0 * len(rule.claims_on))
        assert got[rule_id].labels.keys() == set(named[0]), "what it gets if nobody else claims"


@EVERY_RULE
def test_a_page_names_what_rules_the_finding_out(rule_id: str) -> None:
    rule, text = all_rules()[rule_id], section(rule_id, "What rules it out")
    assert [fact for fact in told.FACTS if f"- {fact}" in text] == [
        fact for fact in told.FACTS if fact in rule.ruled_out_by
    ]
    assert all(f"`{name}`" in text for need in rule.needs for name in need.split("|"))
    assert ("has not ended yet" in text) == rule.awaits_end
    assert text.strip()


def test_each_directness_has_its_own_words() -> None:
    assert len({PRECEDENCE[each] for each in Directness}) == len(Directness)


def working(frame: RunFrame, fact: str) -> RunFrame:
    """Return the run, in which the training reports this all the time."""
    nodes = {key: _told(node, fact, frame.duration_seconds) for key, node in frame.nodes.items()}
    return replace(frame, nodes=nodes)


def _told(node: NodeFrame, fact: str, end: float) -> NodeFrame:
    if fact in (told.A_STEP, told.ANY_STEP):
        return replace(node, steps=f.steps(int(end)))
    if fact == told.GPU_MEMORY:
        held = node.samples.assign(**{"gpu0.tree_memory_used_bytes": 4e9})
        said = [(1.0, "gpu_memory", {"rank": 0, "peak_allocated_bytes": 2**30})]
        return replace(node, samples=held, events=_events(said))
    if fact == told.A_PHASE:
        phase = {"rank": 0, "phase": "evaluate"}
        return replace(
            node, events=_events([(0.0, "phase_begin", phase), (end, "phase_end", phase)])
        )
    metric = {"rank": 0, "name": "loss", "value": 0.5, "step": None}
    return replace(
        node, events=_events([(float(at), "metric", metric) for at in range(0, int(end), 20)])
    )


def _events(said: list[tuple[float, str, dict[str, object]]]) -> pd.DataFrame:
    return f.node(events=said).events


CASES = [(rule, fact) for rule, of in all_rules().items() for fact in of.ruled_out_by]


@pytest.mark.parametrize(("rule_id", "fact"), CASES)
def test_what_a_page_names_excludes_the_finding(rule_id: str, fact: str) -> None:
    assert judged(rule_id, FIRED[rule_id]).verdict.state == "fired"
    assert judged(rule_id, working(FIRED[rule_id], fact)).verdict.state != "fired"

"""Judges one run by one rule of the catalogue."""

from __future__ import annotations

from rules.engine import Judgement, evaluate
from rules.frame import RunFrame
from rules.registry import all_rules
from rules.rule import Values


def judged(rule_id: str, frame: RunFrame, values: Values | None = None) -> Judgement:
    [judgement] = evaluate(frame, {rule_id: values or {}}, [all_rules()[rule_id]])
    return judgement

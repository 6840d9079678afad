"""The findings that are causes of their own, and the waste that each alone counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.advice.recommendation import RuleJudgement
from rules.folding import places
from rules.registry import all_rules


@dataclass(frozen=True)
class Cause:
    """A finding that no other explains. Seconds of the run, at its price."""

    judged: RuleJudgement
    seconds_low: float
    seconds_high: float

    @property
    def rule_id(self) -> str:
        return self.judged.rule_id


def causes(judgements: Sequence[RuleJudgement], run_seconds: float) -> dict[str, Cause]:
    """By rule. Together their upper ends are at most the run's time."""
    fired = {j.rule_id: j for j in judgements if j.verdict.state == "fired"}
    wastes = {rule: _waste_seconds(j) for rule, j in fired.items()}
    placed = places(wastes, run_seconds)
    return {
        rule: Cause(
            judged,
            min(judged.verdict.waste_seconds_low, wastes[rule]) * placed[rule].counted_share,
            wastes[rule] * placed[rule].counted_share,
        )
        for rule, judged in fired.items()
        if not placed[rule].explained_by
    }


def _waste_seconds(judged: RuleJudgement) -> float:
    """0 for what a finding says may be lost later: this run didn't lose it."""
    known = all_rules().get(judged.rule_id)
    is_risk = known is not None and known.reports_risk
    return 0.0 if is_risk else judged.verdict.waste_seconds_high

"""The findings that are causes of their own, and what a fix of each gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.advice.recommendation import RuleJudgement
from advisor.costing.recoverable import RecoverablePart


@dataclass(frozen=True)
class RootCause:
    """A finding that no other explains."""

    judged: RuleJudgement
    recoverable: RecoverablePart

    @property
    def rule_id(self) -> str:
        return self.judged.rule_id

    @property
    def seconds_low(self) -> float:
        return self.recoverable.seconds_low

    @property
    def seconds_high(self) -> float:
        return self.recoverable.seconds_high


def causes(
    judgements: Sequence[RuleJudgement], recovered: Mapping[str, RecoverablePart]
) -> dict[str, RootCause]:
    """Return the causes by rule."""
    fired = {j.rule_id: j for j in judgements if j.verdict.state == "fired"}
    found = {
        rule: RootCause(j, recovered.get(rule, RecoverablePart())) for rule, j in fired.items()
    }
    return {rule: cause for rule, cause in found.items() if not cause.recoverable.explained_by}

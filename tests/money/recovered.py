"""Returns what findings give back of a run whose ledger has just the time that they claim."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from advisor.costing.recoverable import RecoverablePart, recoverable_by_rule
from rules.claims import Claim
from rules.engine import Judgement
from rules.ledger import LabelTime, WasteLedger
from rules.registry import all_rules


def claim(rule: str, low_seconds: float, high_seconds: float) -> tuple[Claim, ...]:
    """Return a claim on the labels of the rule; none, if the rule claims nothing."""
    labels = all_rules()[rule].claims_on
    has_claim = labels and high_seconds
    return (Claim.from_range(labels, low_seconds, high_seconds),) if has_claim else ()


def recovered(
    judgements: Sequence[Judgement], cost_usd: Decimal | None, run_seconds: float
) -> dict[str, RecoverablePart]:
    """Return what is recovered by rule, on a single node."""
    times: dict[str, float] = {}
    for each in (claim for judged in judgements for claim in judged.verdict.claims):
        times[each.labels[0]] = max(times.get(each.labels[0], 0.0), each.seconds)
    entries, left = [], round(run_seconds * 1e6)
    for label, seconds in [*times.items(), ("unclassified", run_seconds)]:
        held = min(round(min(seconds, run_seconds) * 1e6), left)
        entries += [LabelTime("n", None, label, held)] if held else []
        left -= held
    costs = None if cost_usd is None else {"n": cost_usd}
    return recoverable_by_rule(judgements, WasteLedger(tuple(entries)), run_seconds, costs)

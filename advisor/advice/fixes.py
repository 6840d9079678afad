"""What to change about each cause, and what that saves. The kinds differ in `kinds.py` only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from advisor.advice.causes import Cause
from advisor.advice.recommendation import MEASURED, Recommendation, Saving, Spending
from advisor.comparison.wording import display_seconds
from advisor.money import display_usd


@dataclass(frozen=True)
class Fix:
    """The answer to one rule's finding. Several rules may have the same kind."""

    kind: str
    title: str
    setting: str
    """What changes, and `value`: to what."""
    value: str
    effort: str
    risk: float
    """0 to 4, as of a recommendation. Our estimates."""
    risk_dimension: str
    risk_reason: str
    steps: tuple[str, ...]
    """Lines to copy, after the rule's own advice."""


def fixes(
    found: Mapping[str, Cause], kinds: Mapping[str, Fix], spending: Spending
) -> list[Recommendation]:
    """One recommendation of each kind: for the cause of the kind that wastes most."""
    largest = sorted(found.values(), key=lambda cause: (-cause.seconds_high, cause.rule_id))
    advised: dict[str, Recommendation] = {}
    for cause in largest:
        fix = kinds.get(cause.rule_id)
        if fix is not None and fix.kind not in advised:
            advised[fix.kind] = _recommendation(fix, cause, spending)
    return list(advised.values())


def saving_of(cause: Cause, spending: Spending) -> Saving | None:
    """The cause's share of the run's cost; None: no price, or the waste isn't known."""
    if spending.cost_usd is None or not cause.seconds_high:
        return None
    shares = (share_of_time(s, spending) for s in (cause.seconds_low, cause.seconds_high))
    low, high = (spending.cost_usd * Decimal(str(share)) for share in shares)
    return Saving.of(spending.cost_usd, low, (low + high) / 2, high)


def share_of_time(seconds: float, spending: Spending) -> float:
    """0 to 1."""
    if spending.duration_seconds <= 0:
        return 0.0
    return min(max(seconds / spending.duration_seconds, 0.0), 1.0)


def evidence_of(cause: Cause, spending: Spending, saving: Saving | None) -> list[str]:
    """What was found, and what a fix saves in time and money."""
    verdict = cause.judged.verdict
    if not cause.seconds_high:
        return [verdict.summary, "What a fix saves isn't known."]
    saved = f"{display_seconds(cause.seconds_low)} to {display_seconds(cause.seconds_high)}"
    evidence = [
        verdict.summary,
        f"A fix saves {saved} of the run's {display_seconds(spending.duration_seconds)}.",
    ]
    if saving is not None:
        money = f"{display_usd(saving.low)} to {display_usd(saving.high)}"
        whole = display_usd(spending.cost_usd)
        evidence.append(f"At the run's price, that saves {money} of {whole}.")
    return evidence


def _recommendation(fix: Fix, cause: Cause, spending: Spending) -> Recommendation:
    saving = saving_of(cause, spending)
    own = [cause.judged.verdict.advice] if cause.judged.verdict.advice else []
    return Recommendation(
        kind=fix.kind,
        title=fix.title,
        change={fix.setting: fix.value},
        saving_low_usd=saving.low if saving else None,
        saving_usd=saving.mid if saving else None,
        saving_high_usd=saving.high if saving else None,
        monthly_saving_usd=spending.monthly_usd(saving),
        risk=fix.risk,
        risk_dimension=fix.risk_dimension,
        effort=fix.effort,
        evidence=evidence_of(cause, spending, saving),
        assumptions=["Cost is proportional to time.", "The amount of work stays the same."],
        candidates=[],
        dedupe_key=fix.kind,
        rung=MEASURED,
        how_to_apply=[*own, *fix.steps],
        risk_reason=fix.risk_reason,
        rules=[cause.rule_id],
    )

"""Recommends what to change about each cause, and says what that saves. The kinds are data, in
`kinds.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.advice.causes import RootCause
from advisor.advice.recommendation import MEASURED, Recommendation, SavingRange, Spending
from advisor.durations import display_seconds
from advisor.money import display_usd


@dataclass(frozen=True)
class Fix:
    """The answer to one rule's finding. Several rules may have the same kind."""

    kind: str
    title: str
    setting: str
    """The setting that changes; `value` is what to change it to."""
    value: str
    effort: str
    risk: float
    """0 to 4, as of a recommendation. Our estimates."""
    risk_dimension: str
    risk_reason: str
    steps: tuple[str, ...]
    """Lines to copy, after the rule's own advice."""
    rung: str = MEASURED
    """The basis of its saving: the time that was measured as lost, unless the fix says else."""


def fixes(
    found: Mapping[str, RootCause], kinds: Mapping[str, Fix], spending: Spending
) -> list[Recommendation]:
    """Return one recommendation of each kind: for its cause whose fix gives back most."""
    by_rule = sorted(found.values(), key=lambda cause: cause.rule_id)
    largest = sorted(by_rule, key=lambda cause: cause.recoverable.weight, reverse=True)
    advised: dict[str, Recommendation] = {}
    for cause in largest:
        fix = kinds.get(cause.rule_id)
        if fix is not None and fix.kind not in advised:
            advised[fix.kind] = _recommendation(fix, cause, spending)
    return list(advised.values())


def saving_of(cause: RootCause, spending: Spending) -> SavingRange | None:
    """Return the saving of the cause's fix, or None if there is no price or it isn't known what a
    fix gives back.
    """
    low, high = cause.recoverable.usd_low, cause.recoverable.usd_high
    if spending.cost_usd is None or low is None or high is None or not cause.seconds_high:
        return None
    return SavingRange.clamp(spending.cost_usd, low, (low + high) / 2, high)


def share_of_time(seconds: float, spending: Spending) -> float:
    """Return the seconds as a share of the run's time, from 0 to 1."""
    if spending.duration_seconds <= 0:
        return 0.0
    return min(max(seconds / spending.duration_seconds, 0.0), 1.0)


def evidence_of(cause: RootCause, spending: Spending, saving: SavingRange | None) -> list[str]:
    """Return in words what was found, and what a fix saves in time and money."""
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


def _recommendation(fix: Fix, cause: RootCause, spending: Spending) -> Recommendation:
    saving = saving_of(cause, spending)
    own = [cause.judged.verdict.advice] if cause.judged.verdict.advice else []
    return Recommendation(
        kind=fix.kind,
        title=fix.title,
        change={fix.setting: fix.value},
        saving_low_usd=saving.low if saving else None,
        saving_usd=saving.mid if saving else None,
        saving_high_usd=saving.high if saving else None,
        monthly_saving_usd=spending.monthly_usd(saving, fix.rung),
        risk=fix.risk,
        risk_dimension=fix.risk_dimension,
        effort=fix.effort,
        evidence=evidence_of(cause, spending, saving),
        assumptions=["Cost is proportional to time.", "The amount of work stays the same."],
        candidates=[],
        dedupe_key=fix.kind,
        rung=fix.rung,
        how_to_apply=[*own, *fix.steps],
        risk_reason=fix.risk_reason,
        rules=[cause.rule_id],
    )

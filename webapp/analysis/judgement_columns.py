"""The columns of a judgement's row, from a rule's verdict and the run's cost."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from rules.engine import Judgement


def columns_of(
    judged: Judgement, cost_usd: Decimal | None, length: timedelta | None
) -> dict[str, Any]:
    """The rule's results, and the cost of its waste in a run of that cost and length."""
    verdict = judged.verdict
    return {
        "rule_version": judged.version,
        "values_hash": judged.values_hash,
        "values": dict(judged.values),
        "numbers": judged.numbers.to_document(),
        "state": verdict.state,
        "severity": verdict.severity,
        "summary": verdict.summary,
        "advice": verdict.advice,
        "waste_seconds_low": verdict.waste_seconds_low,
        "waste_seconds_high": verdict.waste_seconds_high,
        "waste_usd_low": waste_usd(verdict.waste_seconds_low, cost_usd, length),
        "waste_usd_high": waste_usd(verdict.waste_seconds_high, cost_usd, length),
        "dedupe_key": verdict.dedupe_key,
    }


def waste_usd(
    waste_seconds: float, cost_usd: Decimal | None, length: timedelta | None
) -> Decimal | None:
    """The share of the run's cost, in proportion to its time; None: no price."""
    if cost_usd is None or not length:
        return None
    share = Decimal(str(waste_seconds)) / Decimal(str(length.total_seconds()))
    return cost_usd * min(share, Decimal(1))

"""The columns of a judgement's row, from a rule's verdict."""

from __future__ import annotations

from typing import Any

from rules.engine import Judgement


def columns_of(judged: Judgement) -> dict[str, Any]:
    """Return the columns of a rule's results. What a fix gives back depends on the run's other
    findings; see `dividing`.
    """
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
        "claims": [[list(c.labels), c.seconds, c.low, c.high] for c in verdict.claims],
        "dedupe_key": verdict.dedupe_key,
    }

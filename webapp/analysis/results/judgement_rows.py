"""A judgement's row: its columns, and its judgement by other thresholds, without samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from rules.engine import Judgement, rejudge
from rules.node_names import mentions_node
from rules.registry import all_rules
from rules.rule import Numbers, Rule, Values, values_hash
from webapp.analysis import models as rows
from webapp.runs.models import Node
from webapp.runs.node_names import names_of


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


def judged_by(row: rows.Judgement, values: Mapping[str, Values]) -> Judgement | None:
    """Return a stored judgement with other values, or None if the run must be measured again."""
    rule = all_rules().get(row.rule)
    if rule is None or not _numbers_hold(rule, row, values[row.rule]):
        return None
    run_usd = None if row.run.cost_usd is None else float(row.run.cost_usd)
    return rejudge(rule, Numbers.from_document(row.numbers), values[row.rule], run_usd)


def columns_of_run(judged: Judgement, run_id: UUID) -> dict[str, Any]:
    """Return the columns of a judgement from stored numbers, with the names of the run's nodes."""
    if not (mentions_node(judged.verdict.summary) or mentions_node(judged.verdict.advice)):
        return columns_of(judged)
    nodes = Node.objects.filter(attempt__run=run_id)
    return columns_of(judged.with_node_names(names_of(nodes)))


def hashes(values: Mapping[str, Values]) -> dict[str, str]:
    """Return, by rule, the hash that judgements by these values carry."""
    return {rule: values_hash(of_rule) for rule, of_rule in values.items()}


def _numbers_hold(rule: Rule, row: rows.Judgement, values: Values) -> bool:
    """Return whether this version of the rule measured the numbers with the same measuring
    parameters.
    """
    before: dict[str, Any] = row.values
    measured = [parameter.name for parameter in rule.parameters if parameter.measured]
    return row.rule_version == rule.version and all(
        before.get(name) == values[name] for name in measured
    )

"""Runs the rules over a frame; a failing rule never hides another."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from rules.frame import NodeFrame, RunFrame
from rules.materiality import held_to_floor
from rules.node_names import name_nodes
from rules.registry import all_rules
from rules.rule import Numbers, Rule, Values, Verdict, values_hash

logger = logging.getLogger(__name__)
_TOO_LARGE = "is_too_large"


@dataclass(frozen=True)
class Judgement:
    """One rule's numbers and verdict on one run, with the rule's version and parameters."""

    rule_id: str
    version: int
    values: Values
    numbers: Numbers
    verdict: Verdict

    @property
    def values_hash(self) -> str:
        return values_hash(self.values)

    def with_node_names(self, names: Mapping[str, str]) -> Judgement:
        """Return the judgement with the nodes' names, by key, in its sentences; its numbers keep
        the keys.
        """
        verdict = self.verdict
        texts = name_nodes(verdict.summary, names), name_nodes(verdict.advice, names)
        return replace(self, verdict=replace(verdict, summary=texts[0], advice=texts[1]))


def evaluate(
    frame: RunFrame,
    parameters: Mapping[str, Values],
    rules: Iterable[Rule] | None = None,
    run_usd: float | None = None,
) -> list[Judgement]:
    """Judge a run by every rule, in the order of `rules` (default: the whole catalogue).

    Args:
        parameters: rule id -> the values that differ from the rule's defaults.
        run_usd: the cost of the run, for the materiality floor; None: not known.

    A rule that raises, or has invalid parameters, becomes `insufficient_data` with the error.
    """
    chosen = all_rules().values() if rules is None else rules
    return [_evaluate_one(rule, frame, parameters.get(rule.id, {}), run_usd) for rule in chosen]


def too_large(
    reason: str, parameters: Mapping[str, Values], rules: Iterable[Rule] | None = None
) -> list[Judgement]:
    """Return the judgements of a run that was not read, since it has too much of something.

    Args:
        reason: of what, in words: "more than 60,000 series".
    """
    chosen = all_rules().values() if rules is None else rules
    numbers = Numbers({_TOO_LARGE: 1.0}, missing=(reason,))
    return [_judged(rule, numbers, parameters.get(rule.id, {})) for rule in chosen]


def _judged(rule: Rule, numbers: Numbers, overrides: Values) -> Judgement:
    values = rule.values(overrides)
    return Judgement(rule.id, rule.version, values, numbers, _verdict(rule, numbers, values, None))


def rejudge(
    rule: Rule, numbers: Numbers, values: Values | None = None, run_usd: float | None = None
) -> Judgement:
    """Judge stored numbers with other parameters, without reading samples.

    Args:
        run_usd: the cost of the run; None: not known.

    Raises:
        ValueError: an unknown parameter or a value out of bounds.
    """
    complete = rule.values(values)
    verdict = _verdict(rule, numbers, complete, run_usd)
    return Judgement(rule.id, rule.version, complete, numbers, verdict)


def missing_needs(frame: RunFrame, needs: Iterable[str]) -> tuple[str, ...]:
    """Return the needs without a known sample on any node of the run."""
    return tuple(need for need in needs if not any(_has(n, need) for n in frame.nodes.values()))


def _evaluate_one(
    rule: Rule, frame: RunFrame, overrides: Values, run_usd: float | None
) -> Judgement:
    values: Values = {}
    try:
        values = rule.values(overrides)
        measured = rule.measure(frame, values)
        lacks = [need.replace("|", " or ") for need in missing_needs(frame, rule.needs)]
        if rule.awaits_end and not frame.final:
            lacks.append("the end of the run")
        missing = dict.fromkeys((*measured.missing, *lacks))
        measures = {"run_seconds": frame.duration_seconds, **measured.values}
        numbers = replace(measured, values=measures, missing=tuple(missing))
    except Exception as error:
        verdict = _broken(rule, error)
        return Judgement(rule.id, rule.version, values, Numbers({}), verdict)
    verdict = _verdict(rule, numbers, values, run_usd)
    return Judgement(rule.id, rule.version, values, numbers, verdict)


def _verdict(rule: Rule, numbers: Numbers, values: Values, run_usd: float | None) -> Verdict:
    if numbers.get(_TOO_LARGE):
        return Verdict("insufficient_data", f"Too large to judge: {', '.join(numbers.missing)}.")
    try:
        verdict = held_to_floor(rule.judge(numbers, values), numbers, values, run_usd)
    except Exception as error:
        return _broken(rule, error)
    if numbers.missing and verdict.state in ("passed", "fired"):
        return Verdict("insufficient_data", f"Missing: {', '.join(numbers.missing)}.")
    return verdict


def _broken(rule: Rule, error: Exception) -> Verdict:
    logger.error("a rule failed", extra={"rule": rule.id}, exc_info=error)
    summary = f"The rule failed with an error: {type(error).__name__}: {error}"
    return Verdict("insufficient_data", summary[:500])


def _has(node: NodeFrame, need: str) -> bool:
    return any(node.once(_has_one, one) for one in need.split("|"))


def _has_one(node: NodeFrame, need: str) -> bool:
    if need == "steps":
        return len(node.steps) > 0
    if need.startswith("steps."):
        column = f"{need.removeprefix('steps.')}_seconds"
        return column in node.steps.columns and not np.isnan(node.step_column(column)).all()
    if "*" not in need:
        return need in node.samples.columns and node.series(need) is not None
    names = (str(name) for name in node.samples.columns if fnmatchcase(str(name), need))
    return any(node.series(name) is not None for name in names)

"""Parses parameter overrides: `low_gpu_utilization.threshold_p95=60`, or SageMaker's notation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rules import materiality
from rules.parameter import Parameter
from rules.registry import all_rules
from rules.rule import Rule


def parse_overrides(assignments: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return rule id -> parameter -> value, from `<rule id>.<parameter>=value` or SageMaker's
    notation.

    SageMaker's is `<RuleName>_<parameter>=value`, in any case, with values in SageMaker's units
    (samples, minutes): `LowGPUUtilization_window=500` sets `window_seconds` to 250. In place of a
    rule's id, `materiality` sets the floor of all rules.

    Raises:
        ValueError: an unknown rule or parameter, or a value that isn't allowed.
    """
    overrides: dict[str, dict[str, float]] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ValueError(f"{assignment!r} has no value: write name=value")
        if (parameter := _shared(name.strip())) is not None:
            of_all = overrides.setdefault(materiality.SHARED, {})
            of_all[parameter.name] = parameter.check(parameter.parse(text))
            continue
        rule, word = _rule_of(name.strip(), all_rules())
        parameter = _parameter_of(rule, word)
        of_rule = overrides.setdefault(rule.id, {})
        of_rule[parameter.name] = rule.values({word: parameter.parse(text)})[parameter.name]
    return overrides


def _shared(name: str) -> Parameter | None:
    """Return the parameter of all rules that is meant, or None if the name is one rule's."""
    owner, _, word = name.partition(".")
    if owner != materiality.SHARED:
        return None
    try:
        return materiality.parameter(word)
    except KeyError:
        names = ", ".join(each.name for each in materiality.PARAMETERS)
        raise ValueError(f"{owner} has no parameter {word!r}; it has {names}") from None


def _rule_of(name: str, rules: Mapping[str, Rule]) -> tuple[Rule, str]:
    """Return the rule that a name begins with, and the rest of the name."""
    rule_id, dot, word = name.partition(".")
    if dot and rule_id in rules:
        return rules[rule_id], word
    for rule in rules.values():
        prefix = f"{rule.sagemaker_name}_".lower()
        if rule.sagemaker_name and name.lower().startswith(prefix):
            return rule, name[len(prefix) :]
    raise ValueError(f"{name!r}: no such rule; write <rule id>.<parameter> or <RuleName>_<param>")


def _parameter_of(rule: Rule, word: str) -> Parameter:
    for parameter in rule.parameters:
        if word == parameter.name or word.lower() == parameter.sagemaker_name.lower() != "":
            return parameter
    names = ", ".join(parameter.name for parameter in rule.parameters)
    raise ValueError(f"{rule.id} has no parameter {word!r}; it has {names}")

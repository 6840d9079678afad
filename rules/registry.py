"""Finds the rules: every module in `rules.catalogue` is one."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from functools import cache

from rules import catalogue, materiality
from rules.category import Category
from rules.declared import with_declared_sections
from rules.parameter import Parameter
from rules.rule import Rule


@cache
def all_rules() -> dict[str, Rule]:
    """Return every rule by its id, in the order of their ids."""
    rules = {}
    for module_info in pkgutil.iter_modules(catalogue.__path__):
        module = importlib.import_module(f"{catalogue.__name__}.{module_info.name}")
        rule: Rule = module.RULE
        documented = replace(rule, documentation=(module.__doc__ or "").strip())
        rules[rule.id] = with_declared_sections(materiality.with_floor(documented))
    return dict(sorted(rules.items()))


def rules_by_category() -> dict[Category, list[Rule]]:
    """Return every category that has a rule, in the order of their positions."""
    rules = all_rules().values()
    categories = {rule.category for rule in rules}
    ordered = sorted(categories, key=lambda category: (category.position, category.id))
    return {each: [rule for rule in rules if rule.category == each] for each in ordered}


def parameter_of(owner: str, name: str) -> Parameter:
    """Return a parameter of a rule, or of all rules if the owner is `materiality.SHARED`.

    Raises KeyError.
    """
    if owner == materiality.SHARED:
        return materiality.parameter(name)
    return all_rules()[owner].parameter(name)


def title_of(rule_id: str) -> str:
    """Return the rule's title; for a rule that no longer exists, its id."""
    rule = all_rules().get(rule_id)
    return rule.title if rule else rule_id

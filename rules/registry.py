"""Finds the rules: every module of `rules.catalogue`, by being there."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from functools import cache

from rules import catalogue
from rules.rule import Rule


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its id, in the order of their ids."""
    found = {}
    for module_info in pkgutil.iter_modules(catalogue.__path__):
        module = importlib.import_module(f"{catalogue.__name__}.{module_info.name}")
        rule: Rule = module.RULE
        found[rule.id] = replace(rule, documentation=(module.__doc__ or "").strip())
    return dict(sorted(found.items()))

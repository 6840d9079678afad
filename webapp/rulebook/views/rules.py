"""The catalogue of rules, and the page of each."""

from __future__ import annotations

from typing import cast

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from rules.parameter import Preset
from rules.registry import all_rules, rules_by_category
from rules.rule import Rule
from webapp.accounts.access import PersonRequest
from webapp.rulebook import preview
from webapp.rulebook.documentation import introduction, sections
from webapp.rulebook.forms import as_text
from webapp.thresholds.values import values_of


@require_safe
def rules(request: PersonRequest) -> HttpResponse:
    """Shows all rules by category, and in how many recent runs each fired."""
    counts = preview.fired_counts(request.workspace)
    groups = [
        (category.title, [_line(rule, counts) for rule in members])
        for category, members in rules_by_category().items()
    ]
    return render(request, "rules/rules.html", {"groups": groups, "days": preview.DAYS})


@require_safe
def rule(request: PersonRequest, rule_id: str) -> HttpResponse:
    """Shows the rule's documentation, its thresholds in this workspace, and recent findings."""
    chosen = all_rules().get(rule_id)
    if chosen is None:
        raise Http404("No such rule.")
    context = {
        "rule": chosen,
        "category": chosen.category.title,
        "introduction": introduction(chosen),
        "sections": sections(chosen),
        "parameters": _parameters(request, chosen),
        "runs": preview.runs_that_fired(request.workspace, chosen.id),
        "days": preview.DAYS,
    }
    return render(request, "rules/rule.html", context)


def _line(rule: Rule, counts: dict[str, int]) -> dict[str, object]:
    return {"rule": rule, "checks": introduction(rule), "fired": counts.get(rule.id, 0)}


def _parameters(request: PersonRequest, rule: Rule) -> list[dict[str, object]]:
    values = values_of(request.workspace)[rule.id]
    preset = rule.preset_values(cast(Preset, request.workspace.preset))
    return [
        {
            "parameter": parameter,
            "value": as_text(parameter, values[parameter.name]),
            "default": as_text(parameter, parameter.default),
            "is_own": values[parameter.name] != preset[parameter.name],
            "low": as_text(parameter, parameter.low),
            "high": as_text(parameter, parameter.high),
        }
        for parameter in rule.parameters
    ]

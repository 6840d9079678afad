"""The catalogue of rules, and the page of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from rules.parameter import Preset
from rules.registry import all_rules, rules_by_category
from rules.rule import Rule
from webapp.accounts.access import PersonRequest
from webapp.rulebook import activity, preview
from webapp.rulebook.activity import RuleActivity, recent_activity
from webapp.rulebook.documentation import introduction, sections
from webapp.rulebook.forms import as_text
from webapp.thresholds.values import values_of


@require_safe
def rules(request: PersonRequest) -> HttpResponse:
    """Shows all rules by category: what each needs, which recent runs it could judge, and what it
    found.
    """
    known = recent_activity(request.workspace)
    groups = [
        (category.title, [_line(rule, known) for rule in members])
        for category, members in rules_by_category().items()
    ]
    context = {"groups": groups, "days": preview.DAYS, "most_runs": activity.MOST_RUNS}
    return render(request, "rules/rules.html", context)


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


def _line(rule: Rule, known: Mapping[str, RuleActivity]) -> dict[str, object]:
    needs = [need.split("|") for need in rule.needs]
    did = known.get(rule.id, RuleActivity())
    return {"rule": rule, "checks": introduction(rule), "needs": needs, "did": did}


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

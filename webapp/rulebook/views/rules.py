"""The catalogue of rules, and the page of each."""

from __future__ import annotations

from typing import cast

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from rules.parameter import Preset
from rules.registry import all_rules
from rules.rule import Rule
from webapp.accounts.access import PersonRequest
from webapp.rulebook import preview
from webapp.rulebook.documentation import introduction, sections
from webapp.rulebook.forms import as_text
from webapp.thresholds.values import values_of

CATEGORIES = {
    "time": "Waste of time",
    "data": "Waiting for data",
    "gpu": "Use of GPUs",
    "steps": "Steps",
    "sizing": "Size of the machine",
    "overview": "Overviews",
}


@require_safe
def rules(request: PersonRequest) -> HttpResponse:
    """All rules by category, and how often each fired of late."""
    counts = preview.fired_counts(request.workspace)
    groups = [
        (title, [_line(rule, counts) for rule in all_rules().values() if rule.category == category])
        for category, title in CATEGORIES.items()
    ]
    return render(request, "rules/rules.html", {"groups": groups, "days": preview.DAYS})


@require_safe
def rule(request: PersonRequest, rule_id: str) -> HttpResponse:
    """What its docstring says, and the values by which this workspace judges."""
    found = all_rules().get(rule_id)
    if found is None:
        raise Http404("There is no such rule.")
    context = {
        "rule": found,
        "category": CATEGORIES[found.category],
        "introduction": introduction(found),
        "sections": sections(found),
        "parameters": _parameters(request, found),
        "runs": preview.runs_that_fired(request.workspace, found.id),
        "days": preview.DAYS,
    }
    return render(request, "rules/rule.html", context)


def _line(rule: Rule, counts: dict[str, int]) -> dict[str, object]:
    return {"rule": rule, "checks": introduction(rule), "fired": counts.get(rule.id, 0)}


def _parameters(request: PersonRequest, found: Rule) -> list[dict[str, object]]:
    values = values_of(request.workspace)[found.id]
    preset = found.preset_values(cast(Preset, request.workspace.preset))
    return [
        {
            "parameter": parameter,
            "value": as_text(parameter, values[parameter.name]),
            "default": as_text(parameter, parameter.default),
            "is_own": values[parameter.name] != preset[parameter.name],
            "low": as_text(parameter, parameter.low),
            "high": as_text(parameter, parameter.high),
        }
        for parameter in found.parameters
    ]

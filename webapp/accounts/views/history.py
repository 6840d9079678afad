"""The audit log of a workspace."""

from __future__ import annotations

import csv

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.accounts import scope
from webapp.accounts.access import PersonRequest, owners_only
from webapp.accounts.models import AuditEntry
from webapp.http.downloads import plain_cell

PAGE_ENTRIES = 50


@owners_only
@require_safe
def history(request: PersonRequest) -> HttpResponse:
    """Shows changes to money, access and rules, the latest first."""
    entries = _chosen(request)
    context = {
        "page": Paginator(entries, PAGE_ENTRIES).get_page(request.GET.get("page")),
        "actions": _values(request, "action"),
        "actors": _values(request, "actor_name"),
        "action": request.GET.get("action", ""),
        "actor": request.GET.get("actor", ""),
    }
    return render(request, "accounts/history.html", context)


@owners_only
@require_safe
def history_csv(request: PersonRequest) -> HttpResponse:
    """Answers all entries that match the filter; times are UTC."""
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="history.csv"'
    writer = csv.writer(answer)
    writer.writerow(["at", "who", "action", "subject", "field", "before", "after"])
    for entry in _chosen(request).iterator():
        for field, (before, after) in (entry.change or {"": ("", "")}).items():
            row = (entry.at.isoformat(), entry.actor_name, entry.action, entry.subject)
            writer.writerow([plain_cell(value) for value in (*row, field, before, after)])
    return answer


def _chosen(request: PersonRequest) -> QuerySet[AuditEntry]:
    entries = scope.audit_of(request.workspace)
    wanted = {"action": request.GET.get("action"), "actor_name": request.GET.get("actor")}
    return entries.filter(**{field: value for field, value in wanted.items() if value})


def _values(request: PersonRequest, field: str) -> list[str]:
    entries = scope.audit_of(request.workspace).order_by(field)
    return list(entries.values_list(field, flat=True).distinct())

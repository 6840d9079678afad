"""The page that the `type` of every refusal leads to."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.http.problem_types import TYPES


@require_safe
def problem_page(request: HttpRequest) -> HttpResponse:
    """Shows nothing of any workspace: a person who debugs an agent may have no account."""
    return render(request, "problems.html", {"types": TYPES})

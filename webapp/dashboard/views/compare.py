"""Two runs side by side."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.analysis.selectors.old_prices import old_prices_of_runs
from webapp.dashboard.selectors.comparison import compare_page
from webapp.runs import scope
from webapp.runs.models import Run


@require_safe
def compare(request: PersonRequest) -> HttpResponse:
    """`?a=RUN&b=RUN` compares `b` with `a`; `?run=RUN&run=RUN` puts the earlier one first."""
    run_ids = request.GET.getlist("run")
    if run_ids:
        return _in_order(request, run_ids)
    a, b = request.GET.get("a", ""), request.GET.get("b", "")
    if not a or not b:
        return _selection(request, "A comparison needs two runs.")
    if a == b:
        return _selection(request, "Both ids are of the same run.")
    page = compare_page(_run(request, a), _run(request, b))
    context = {"page": page, "a": page.runs[0], "b": page.runs[1], "chart": page.chart_document()}
    both = scope.runs_of(request.workspace).filter(pk__in=[run.pk for run in page.runs])
    context["old_prices"] = old_prices_of_runs(both)
    return render(request, "dashboard/compare.html", context)


def _in_order(request: PersonRequest, run_ids: list[str]) -> HttpResponse:
    if len(set(run_ids)) != 2:
        count = len(set(run_ids))
        return _selection(
            request, f"{count} run{'s' if count != 1 else ''} selected; a comparison needs two."
        )
    first, second = sorted((_run(request, run) for run in run_ids), key=_age)
    return redirect(f"{reverse('dashboard:compare')}?a={first.pk}&b={second.pk}")


def _age(run: Run) -> tuple[object, int]:
    return run.started_at or run.created_at, run.number


def _run(request: PersonRequest, run_id: str) -> Run:
    return scope.run_or_404(request.workspace, run_id)


def _selection(request: PersonRequest, why: str) -> HttpResponse:
    return render(request, "dashboard/compare_selection.html", {"why": why}, status=400)

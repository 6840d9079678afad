"""Two runs side by side, or up to six."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.analysis.selectors.old_prices import old_prices_of_runs
from webapp.dashboard.selectors.comparison import compare_page
from webapp.dashboard.selectors.several import MOST_RUNS, several_page
from webapp.runs import scope
from webapp.runs.models import Run


@require_safe
def compare(request: PersonRequest) -> HttpResponse:
    """Compares `b` with `a` of `?a=RUN&b=RUN`; `?run=RUN&run=RUN...` puts the earliest one
    first.
    """
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
    wanted = list(dict.fromkeys(run_ids))
    if not 2 <= len(wanted) <= MOST_RUNS:
        count = f"{len(wanted)} run{'s' if len(wanted) != 1 else ''} selected"
        return _selection(request, f"{count}; a comparison takes two to {MOST_RUNS}.")
    runs = sorted((_run(request, run_id) for run_id in wanted), key=_age)
    if len(runs) == 2:
        return redirect(f"{reverse('dashboard:compare')}?a={runs[0].pk}&b={runs[1].pk}")
    page = several_page(runs)
    context = {"page": page, "chart": page.chart_document()}
    shown = scope.runs_of(request.workspace).filter(pk__in=[run.pk for run in runs])
    context["old_prices"] = old_prices_of_runs(shown)
    return render(request, "dashboard/compare_several.html", context)


def _age(run: Run) -> tuple[object, int]:
    return run.started_at or run.created_at, run.number


def _run(request: PersonRequest, run_id: str) -> Run:
    return scope.run_or_404(request.workspace, run_id)


def _selection(request: PersonRequest, why: str) -> HttpResponse:
    return render(request, "dashboard/compare_selection.html", {"why": why}, status=400)

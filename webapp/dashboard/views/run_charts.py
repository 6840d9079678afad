"""All charts of a run's page in one answer."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse, JsonResponse
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.dashboard.selectors.drawn import drawn_charts
from webapp.runs import scope
from webapp.runs.views import series


@require_safe
@gzip_page
def run_charts(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """`{from, to, charts: {key: {hidden, lines}}}` with `lines` of `{node, label, start, step, min,
    mean, max}`: seconds since the start of the run; null: not known."""
    run = scope.run_or_404(request.workspace, run_id)

    def respond(window: series.Window) -> HttpResponse:
        document = drawn_charts(run, window)
        return JsonResponse(document, json_dumps_params={"separators": (",", ":")})

    return series.unless_known(request, run, series.window, respond)

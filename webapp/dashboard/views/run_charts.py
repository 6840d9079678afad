"""All charts of a run's page in one answer."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.dashboard.selectors.drawn import drawn_charts
from webapp.dashboard.selectors.heat import drawn_cores
from webapp.runs import scope
from webapp.runs.models import Run
from webapp.runs.views import series


@dataclass(frozen=True)
class ChartRequest(series.SeriesWindow):
    """Window of the charts; `of_cores` asks for the heat map of the cores alone."""

    of_cores: bool


@require_safe
@gzip_page
def run_charts(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Answers `{from, to, charts: {key: {hidden, lines}}, heat, nodes, steps, phases}` with `lines`
    and `nodes` of `{node, label, kind, start, step, min, mean, max}`: seconds since the start of
    the run; null if unknown. With `cores=1` only the heat map of the cores, which is read once it
    is unfolded.
    """
    return answer_charts(request, scope.run_or_404(request.workspace, run_id))


def answer_charts(request: HttpRequest, run: Run) -> HttpResponse:
    """Return the charts of a run. The caller has checked who may see it."""

    def respond(asked: ChartRequest) -> HttpResponse:
        document = (drawn_cores if asked.of_cores else drawn_charts)(run, asked)
        return JsonResponse(document, json_dumps_params={"separators": (",", ":")})

    return series.unless_known(request, run, _asked, respond)


def _asked(request: HttpRequest, run: Run) -> ChartRequest:
    return ChartRequest(
        **vars(series.window(request, run)), of_cores=request.GET.get("cores") == "1"
    )

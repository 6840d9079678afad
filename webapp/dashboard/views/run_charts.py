"""All charts of a run's page in one answer, and the parts that are read when they are unfolded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.dashboard.selectors.cluster import drawn_nodes
from webapp.dashboard.selectors.drawn import drawn_charts, read_nodes
from webapp.dashboard.selectors.gpu_panels import drawn_panels
from webapp.dashboard.selectors.heat import drawn_cores
from webapp.http.problems import Problem
from webapp.runs import scope
from webapp.runs.models import Run
from webapp.runs.views import series


@dataclass(frozen=True)
class ChartRequest(series.SeriesWindow):
    """Window of the charts; `of_cores` asks for the heat map of the cores alone, `panels` for these
    panels of GPUs, `first` for the nodes from this place on.
    """

    of_cores: bool = False
    panels: tuple[str, ...] = ()
    first: int | None = None


@require_safe
@gzip_page
def run_charts(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Answers `{from, to, charts: {key: {lines}}, heat, nodes, steps, phases}` with `lines`
    and `nodes` of `{node, label, kind, start, step, min, mean, max}`: seconds since the start of
    the run; null if unknown. With `cores=1` only the heat map of the cores, with `panels=sm,power`
    only these panels of GPUs; both are read once they are unfolded. With `node=8` of this node.
    With `first=0` answers `{next, heat, ranks}` of some nodes from that place on.
    """
    return answer_charts(request, scope.run_or_404(request.workspace, run_id))


def answer_charts(request: HttpRequest, run: Run) -> HttpResponse:
    """Return the charts of a run. The caller has checked who may see it."""

    def respond(asked: ChartRequest) -> HttpResponse:
        return JsonResponse(_charts(run, asked), json_dumps_params={"separators": (",", ":")})

    return series.unless_known(request, run, _asked, respond)


def _charts(run: Run, asked: ChartRequest) -> dict[str, Any]:
    if asked.first is not None:
        return drawn_nodes(run, asked, asked.first)
    if asked.panels:
        return drawn_panels(read_nodes(run, asked.node), run, asked, asked.panels)
    if asked.of_cores:
        return drawn_cores(run, read_nodes(run, asked.node), asked)
    return drawn_charts(run, asked)


def _asked(request: HttpRequest, run: Run) -> ChartRequest:
    first = request.GET.get("first", "")
    if first and not first.isdecimal():
        raise Problem(400, "This is no place of a node.", "first", "Send 0 for the first node.")
    return ChartRequest(
        **vars(series.window(request, run)),
        of_cores=request.GET.get("cores") == "1",
        panels=tuple(key for key in request.GET.get("panels", "").split(",") if key),
        first=int(first) if first else None,
    )

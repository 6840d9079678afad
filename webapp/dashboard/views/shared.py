"""The pages that a link shows to people outside the workspace, and the data of their charts.

The secret in the address decides what is shown. It makes no difference who is signed in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from webapp.accounts.access import open_to_everybody
from webapp.dashboard.report.answer import report_answer
from webapp.dashboard.selectors.comparison import compare_page
from webapp.dashboard.selectors.run import run_page
from webapp.dashboard.views.run_charts import answer_charts
from webapp.http import rate_limits
from webapp.http.addresses import client_address
from webapp.http.problems import Problem
from webapp.runs import scope
from webapp.runs.models import Run
from webapp.runs.views import series
from webapp.sharing import links
from webapp.sharing.models import ShareLink

_Rest = ParamSpec("_Rest")
SharedView = Callable[Concatenate[HttpRequest, "SharedContent", _Rest], HttpResponse]
SIDES = ("a", "b")
HEADERS = {"Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex, nofollow"}


@dataclass(frozen=True)
class SharedContent:
    """Content of a link: `runs` is one run, or the two of a comparison, the earlier one first."""

    secret: str
    link: ShareLink
    runs: list[Run]


def _by_secret(view: SharedView[_Rest]) -> Callable[..., HttpResponse]:
    """Give a view what the secret in the address opens, or answer that it opens nothing."""

    @open_to_everybody
    @require_safe
    @never_cache
    @wraps(view)
    def opened(
        request: HttpRequest, secret: str, *args: _Rest.args, **kwargs: _Rest.kwargs
    ) -> HttpResponse:
        _forget_visitor(request)
        try:
            rate_limits.address_asks(client_address(request))
            response = view(request, _open(secret), *args, **kwargs)
        except Problem as problem:
            response = problem.response()
        except Http404:
            response = _closed(request)
        for name, value in HEADERS.items():
            response[name] = value
        return response

    return opened


def _open(secret: str) -> SharedContent:
    """Return what the link shows; raise Http404 if it opens nothing, or one of its runs is gone."""
    link = links.find_link(secret)
    if link is None:
        raise Http404
    ids = [run_id for run_id in (link.earlier_id, link.run_id) if run_id]
    runs = [scope.run_or_404(link.workspace, run_id) for run_id in ids]
    for run in runs:
        run.workspace = link.workspace
    return SharedContent(secret, link, runs)


def _forget_visitor(request: HttpRequest) -> None:
    """Let members see what everybody sees: nothing to change, and no way into the workspace."""
    request.workspace = request.membership = None  # type: ignore[attr-defined]
    request.may_change = request.is_owner = False  # type: ignore[attr-defined]


def _closed(request: HttpRequest) -> HttpResponse:
    return render(request, "shared/closed.html", status=410)


@_by_secret
def shared(request: HttpRequest, opened: SharedContent) -> HttpResponse:
    """Shows what the link is to."""
    links.touch(opened.link)
    show = {ShareLink.RUN: _run, ShareLink.REPORT: _report, ShareLink.COMPARISON: _comparison}
    return show[opened.link.kind](request, opened)


@_by_secret
@gzip_page
def shared_charts(request: HttpRequest, opened: SharedContent) -> HttpResponse:
    """Answers the charts of a shared run."""
    if opened.link.kind != ShareLink.RUN:
        raise Http404
    return answer_charts(request, opened.runs[0])


@_by_secret
@gzip_page
def shared_series(request: HttpRequest, opened: SharedContent, side: str) -> HttpResponse:
    """Answers the samples of one of two shared runs; `side` is `a`, the earlier one, or `b`."""
    if opened.link.kind != ShareLink.COMPARISON or side not in SIDES:
        raise Http404
    return series.answer(request, opened.runs[SIDES.index(side)], series.json_answer)


def _run(request: HttpRequest, opened: SharedContent) -> HttpResponse:
    [run] = opened.runs
    page = run_page(run, may_change=False)
    context = {
        "link": opened.link,
        "run": run,
        "page": page,
        "chart": page.chart_document(),
        "charts_address": reverse("dashboard:shared_charts", args=[opened.secret]),
    }
    return render(request, "shared/run.html", context)


def _report(_request: HttpRequest, opened: SharedContent) -> HttpResponse:
    return report_answer(opened.runs[0], is_shared=True)


def _comparison(request: HttpRequest, opened: SharedContent) -> HttpResponse:
    a, b = opened.runs
    page = compare_page(a, b)
    chart = page.chart_document()
    for drawn, side in zip(chart["runs"], SIDES, strict=True):
        drawn["address"] = reverse("dashboard:shared_series", args=[opened.secret, side])
    context = {"link": opened.link, "page": page, "a": a, "b": b, "chart": chart}
    return render(request, "shared/comparison.html", context)

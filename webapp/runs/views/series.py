"""The samples behind the charts, as JSON and as CSV."""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.cache import get_conditional_response
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from advisor.store import step_series
from advisor.store.chart_plan import buckets_of
from advisor.store.opening import open_store
from advisor.store.room import RoomExceededError
from advisor.store.series import SeriesView, read_series
from webapp.accounts.access import PersonRequest
from webapp.http.downloads import attachment_header
from webapp.http.problems import Problem
from webapp.runs import scope
from webapp.runs.history import chart_histories, nodes_of
from webapp.runs.models import Run

AnyWindow = TypeVar("AnyWindow", bound="SeriesWindow")
MOST_BUCKETS, DEFAULT_BUCKETS, MOST_NAMES = 2000, 400, 64
SIGNIFICANT_DIGITS = 6


@dataclass(frozen=True)
class SeriesWindow:
    """Part of a run to read, from `start_seconds` to `end_seconds` since the run's start."""

    start_seconds: float
    end_seconds: float
    buckets: int
    node: int | None = None
    """The number of the only node to read; None: all."""

    def etag(self, run: Run) -> str:
        """Return an ETag that changes with the query and with all data that arrives for the run."""
        text = f"{self}|{run.pk}|{run.started_at}|{run.last_received_at}"
        return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'

    def times(self, run: Run) -> tuple[datetime, datetime] | None:
        """Return the start and end of the window, or None if nothing is in it."""
        if run.started_at is None or self.end_seconds <= self.start_seconds:
            return None
        start = run.started_at + timedelta(seconds=self.start_seconds)
        return start, run.started_at + timedelta(seconds=self.end_seconds)


@dataclass(frozen=True)
class SeriesRequest(SeriesWindow):
    """Some series of a part of a run."""

    names: tuple[str, ...] = ()


@require_safe
@gzip_page
def as_json(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Answers `{start, from, to, series: [{node, name, unit, t, min, mean, max}]}`; null if
    unknown.
    """
    return answer(request, _run(request, run_id), json_answer)


@require_safe
@gzip_page
def as_csv(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Answers one line per node, series and bucket. An empty field is unknown."""
    return answer(request, _run(request, run_id), _csv)


def _run(request: PersonRequest, run_id: UUID) -> Run:
    return scope.run_or_404(request.workspace, run_id)


def answer(
    request: HttpRequest,
    run: Run,
    write: Callable[[Run, SeriesRequest, list[SeriesView]], HttpResponse],
) -> HttpResponse:
    """Answers a query about a run that the person may see; 304 if nothing has changed."""
    return unless_known(request, run, _asked, lambda asked: write(run, asked, _read(run, asked)))


def unless_known(
    request: HttpRequest,
    run: Run,
    parse: Callable[[HttpRequest, Run], AnyWindow],
    respond: Callable[[AnyWindow], HttpResponse],
) -> HttpResponse:
    """Answer a query that `parse` understands; 304 if nothing has changed since."""
    try:
        asked = parse(request, run)
    except Problem as problem:
        return problem.response()
    etag = asked.etag(run)
    # The ETag is checked before reading, so that an unchanged answer reads no object.
    fresh = get_conditional_response(request, etag=etag)
    if fresh is not None and fresh.status_code == 304:
        return fresh
    try:
        response = respond(asked)
    except RoomExceededError as error:
        detail = f"The run has {error}."
        return Problem(422, detail, "from", "Ask for fewer hours.").response()
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    return response


def _read(run: Run, asked: SeriesRequest) -> list[SeriesView]:
    times = asked.times(run)
    if times is None:
        return []
    buckets = buckets_of(*times, asked.buckets, is_aligned=False)
    wanted = [n for n in nodes_of(run) if asked.node in (None, n.number)]
    nodes = chart_histories(wanted, buckets)
    store = open_store(settings.OBJECTS_URL)
    sampled = [name for name in asked.names if name not in step_series.NAMES]
    views = read_series(store, nodes, sampled, *times, asked.buckets) if sampled else []
    if len(sampled) < len(asked.names):
        views += step_series.read_steps(store, nodes, asked.names, *times, asked.buckets)
    return views


def _asked(request: HttpRequest, run: Run) -> SeriesRequest:
    names = tuple(name for name in request.GET.get("names", "").split(",") if name)
    if not names or len(names) > MOST_NAMES:
        raise Problem(400, "No series is named, or too many are.", "names", "Send 1 to 64 names.")
    return SeriesRequest(**vars(window(request, run)), names=names)


def window(request: HttpRequest, run: Run) -> SeriesWindow:
    """Return the part of the run that the query asks for. Raises Problem."""
    length = run.duration.total_seconds() if run.duration else 0.0
    start = _number(request, "from", 0.0)
    end = min(_number(request, "to", length), length)
    buckets = _number(request, "buckets", DEFAULT_BUCKETS)
    if not 1 <= buckets <= MOST_BUCKETS:
        detail = f"{buckets:g} is outside 1..{MOST_BUCKETS}."
        raise Problem(400, detail, "buckets", "Send a number within the range.")
    return SeriesWindow(max(start, 0.0), end, int(buckets), _node(request))


def _node(request: HttpRequest) -> int | None:
    text = request.GET.get("node", "")
    if text and not text.isdecimal():
        raise Problem(400, "This is no node's number.", "node", "Send 1 for the first node.")
    return int(text) if text else None


def _number(request: HttpRequest, field: str, default: float) -> float:
    try:
        value = float(request.GET.get(field, default))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise Problem(400, "This is not a number.", field, "Send seconds since the run's start.")
    return value


def json_answer(run: Run, asked: SeriesRequest, views: list[SeriesView]) -> HttpResponse:
    started_at = run.started_at.isoformat() if run.started_at else None
    document = {
        "started_at": started_at,
        "from": asked.start_seconds,
        "to": asked.end_seconds,
        "series": [_document(view, asked.start_seconds) for view in views],
    }
    return JsonResponse(document, json_dumps_params={"separators": (",", ":")})


def _document(view: SeriesView, offset_seconds: float) -> dict[str, Any]:
    return {
        "node": view.node_key,
        "name": view.series,
        "unit": view.unit,
        "t": _plain(view.t_seconds + offset_seconds),
        "min": _plain(view.minimum),
        "mean": _plain(view.mean),
        "max": _plain(view.maximum),
    }


def _plain(values: np.ndarray) -> list[float | None]:
    return round_values(values, SIGNIFICANT_DIGITS)


def round_values(values: np.ndarray, digits: int) -> list[float | None]:
    """Return the values rounded to significant digits; None for unknown ones."""
    known = np.isfinite(values)
    size = np.abs(np.where(known & (values != 0), values, 1.0))
    places = digits - 1 - np.floor(np.log10(size)).astype(int)
    # Powers of ten are exact, so each quotient is the float nearest to its decimal.
    up, down = 10.0 ** np.clip(places, 0, 300), 10.0 ** np.clip(-places, 0, 300)
    rounded = np.round(np.where(known, values, 0.0) / down * up) / up * down
    found = rounded.astype(object)
    found[~known] = None
    return list(found.tolist())


def _csv(run: Run, asked: SeriesRequest, views: list[SeriesView]) -> HttpResponse:
    text = io.StringIO()
    lines = csv.writer(text)
    lines.writerow(["time_utc", "seconds", "node", "series", "unit", "min", "mean", "max"])
    for view in views:
        lines.writerows(_lines(view, asked, run.started_at))
    headers = {"Content-Disposition": attachment_header(f"{run.job.name}-{run.number}.csv")}
    return HttpResponse(text.getvalue(), content_type="text/csv", headers=headers)


def _lines(view: SeriesView, asked: SeriesRequest, started_at: datetime | None):  # type: ignore[no-untyped-def]
    columns = (view.t_seconds + asked.start_seconds, view.minimum, view.mean, view.maximum)
    for seconds, *values in zip(*(_plain(column) for column in columns), strict=True):
        moment = started_at + timedelta(seconds=seconds or 0.0) if started_at else None
        clock = moment.isoformat(timespec="milliseconds") if moment else ""
        yield [clock, seconds, view.node_key, view.series, view.unit, *values]

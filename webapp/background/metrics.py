"""Figures of the whole service, which Prometheus reads at `/metrics`.

Those of background work are here, by kind; packages above add theirs.

Nothing is said of single workspaces. Only who knows the operator's token is answered.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden, HttpResponseNotFound
from django.utils import timezone
from django.views.decorators.http import require_safe

from webapp.accounts.access import open_to_everybody
from webapp.background import conditions
from webapp.background.kinds import WorkKind, all_kinds
from webapp.background.lag import MINUTES, lag, waiting_since
from webapp.http.prometheus import CONTENT_TYPE, Sample, text

_LAG, _COUNT = "trimtab_work_lag_seconds", "trimtab_work_lag_count"
_WAITING = "trimtab_work_waiting_seconds"
_DUE, _FAILED = "trimtab_work_due", "trimtab_work_failed"
_HELP = {
    _LAG: "Seconds from an arrival until work that has seen it was done, in the last "
    f"{MINUTES} minutes; quantile 1 is the longest. Up to a tenth too large.",
    _COUNT: "How many pieces of work trimtab_work_lag_seconds is of.",
    _WAITING: "Seconds for which the oldest arrival has waited that no work has seen; 0: none.",
    _DUE: "Rows that are due and that no worker has.",
    _FAILED: "Rows that were given up.",
}
_others: list[tuple[Mapping[str, str], Callable[[], Iterable[Sample]]]] = []


def register(helps: Mapping[str, str], figures: Callable[[], Iterable[Sample]]) -> None:
    """Add gauges, with what each is. Call when the application starts."""
    _others.append((helps, figures))


@open_to_everybody
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer with the figures; 404 unless the service has a token for this, 403 without the
    token.
    """
    if not settings.METRICS_TOKEN:
        return HttpResponseNotFound()
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not secrets.compare_digest(given.encode(), settings.METRICS_TOKEN.encode()):
        return HttpResponseForbidden()
    now = timezone.now()
    samples = [sample for kind in all_kinds() for sample in _of_kind(kind, now)]
    helps = dict(_HELP)
    for more, figures in _others:
        helps |= more
        samples += figures()
    return HttpResponse(text(helps, samples), content_type=CONTENT_TYPE)


def _of_kind(kind: WorkKind[Any], now: datetime) -> Iterator[Sample]:
    label = {"kind": kind.id}
    figures = lag(kind, time.time())
    if figures is not None:
        yield _LAG, label | {"quantile": "0.5"}, figures.p50_seconds
        yield _LAG, label | {"quantile": "0.99"}, figures.p99_seconds
        yield _LAG, label | {"quantile": "1"}, figures.longest_seconds
    yield _COUNT, label, 0 if figures is None else figures.count
    since = waiting_since(kind.rows, now)
    yield _WAITING, label, 0.0 if since is None else (now - since).total_seconds()
    yield _DUE, label, conditions.due_rows(kind, now).count()
    failed = kind.rows.filter(conditions.has_news(), given_up_at__isnull=False)
    yield _FAILED, label, failed.count()

"""The recommendations of all jobs: what could be saved, and what was decided."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.advice import looking, scope
from webapp.advice.models import Recommendation
from webapp.advice.selectors import inbox as selector
from webapp.advice.selectors.inbox import UNREAD, InboxFilter
from webapp.advice.selectors.savings import saving_of
from webapp.analysis.scope import analysed_runs_of
from webapp.http.downloads import plain_cell

PAGE_ROWS = 50
COLUMNS = (
    "job",
    "recommendation",
    "kind",
    "state",
    "saving_month_usd",
    "saving_run_usd",
    "saving_run_low_usd",
    "saving_run_high_usd",
    "risk_0_to_4",
    "effort",
    "evidence_run",
    "reason",
    "decided_by",
    "created_at",
    "url",
)
_OF_CSV = (
    *("uuid", "title", "kind", "state", "state_reason", "decided_by", "created_at", "effort"),
    *("saving_low_usd", "saving_usd", "saving_high_usd", "monthly_saving_usd", "risk"),
    *("realised_low_usd", "realised_usd", "realised_high_usd", "realised_runs", "rung"),
    *("job__name", "run__number"),
)
"""The columns that a line of the CSV reads of a recommendation: its row is wide."""


@require_safe
def inbox(request: PersonRequest) -> HttpResponse:
    """Shows the recommendations that match the URL; see `InboxFilter`."""
    own, chosen = scope.recommendations_of(request.workspace), InboxFilter.from_query(request.GET)
    rows = chosen.rows(own).select_related(None).select_related("job", "run__job")
    page = Paginator(rows.defer(*UNREAD), PAGE_ROWS).get_page(request.GET.get("page"))
    shown = list(page.object_list)
    _mark_seen(own, shown)
    context = {
        "lines": selector.lines(shown),
        "page": page,
        "chosen": chosen,
        "offered": selector.inbox_choices(own),
        "counts": selector.counts(own),
        "open_saving": selector.open_saving(own),
        "asked": request.GET.urlencode(),
        "states": list(selector.STATES),
        "tomorrow": timezone.localdate() + timedelta(days=1),
    }
    if not shown and chosen.is_all:
        analysed = analysed_runs_of(request.workspace)
        context["analysed"] = analysed.count()
        context["unpriced_count"] = analysed.filter(cost_usd=None).count()
    return render(request, "advice/inbox.html", context)


def _mark_seen(own: QuerySet[Recommendation], shown: list[Recommendation]) -> None:
    """Freeze the estimates that a person now sees for the first time: whole rows are needed for
    that.
    """
    new = [row.pk for row in shown if row.seen_at is None]
    if new:
        looking.freeze_seen(own.filter(pk__in=new))


@require_safe
def as_csv(request: PersonRequest) -> HttpResponse:
    """Answers all pages of the same URL. USD are exact to the nano-dollar; an empty cell is
    unknown, never 0.
    """
    own = scope.recommendations_of(request.workspace)
    rows = InboxFilter.from_query(request.GET).rows(own).select_related(None)
    rows = rows.select_related("job", "run").only(*_OF_CSV)
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="recommendations.csv"'
    writer = csv.writer(answer)
    writer.writerow(COLUMNS)
    writer.writerows([plain_cell(value) for value in line] for line in _cells(rows))
    return answer


def _cells(rows: QuerySet[Recommendation]) -> Iterator[list[object]]:
    for row in rows.iterator():
        saving = saving_of(row)
        estimated = saving.estimated
        sums = [saving.monthly_usd, saving.per_run_usd]
        sums += [estimated.low, estimated.high] if estimated else [None, None]
        yield [
            row.job.name,
            row.title,
            row.kind,
            row.state,
            *("" if usd is None else f"{usd:f}" for usd in sums),
            row.risk,
            row.effort,
            row.run.number,
            row.state_reason,
            row.decided_by,
            row.created_at.isoformat(timespec="seconds"),
            settings.BASE_URL + reverse("advice:recommendation", args=[row.uuid]),
        ]

"""Prices of machines: list prices and the workspace's rates."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from advisor.pricing.csv_rows import lines
from advisor.pricing.price import PriceRow
from webapp.accounts.access import PersonRequest
from webapp.prices.selectors import explorer
from webapp.prices.selectors.explorer import Question

PAGE_PRICES = 50
PAGE_EXPORTED = 500


@require_safe
def prices(request: PersonRequest) -> HttpResponse:
    """Shows a page of prices on a day; unknown values in the URL match nothing or are ignored."""
    question = question_in(request)
    page = Paginator(explorer.keys(request.workspace, question), PAGE_PRICES).get_page(
        request.GET.get("page")
    )
    rows = explorer.rows(request.workspace, list(page.object_list), question.moment)
    last_asked, errors = explorer.last_asked()
    context = {
        "rows": rows,
        "page": page,
        "question": question,
        "choices": explorer.choices(request.workspace),
        "has_own_rates": any(row.has_own_rate for row in rows),
        "stale_count": sum(1 for row in rows if row.age and row.age.is_stale),
        "last_asked": last_asked,
        "errors": errors,
    }
    return render(request, "prices/prices.html", context)


@require_safe
def as_csv(request: PersonRequest) -> StreamingHttpResponse:
    """Answers the whole list as CSV, with the workspace's rate if it has one."""
    answer = StreamingHttpResponse(lines(_shown(request)), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="prices.csv"'
    return answer


def question_in(request: HttpRequest) -> Question:
    """Return the filters in the URL, without NUL, which PostgreSQL refuses."""
    texts = {name: str(value).replace("\0", "") for name, value in request.GET.items()}
    return Question(
        text=texts.get("q", "").strip(),
        region=texts.get("region", ""),
        service=texts.get("service", ""),
        option=texts.get("option", ""),
        day=_day(texts.get("on", "")),
    )


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _shown(request: PersonRequest) -> Iterator[PriceRow]:
    question = question_in(request)
    pages = Paginator(explorer.keys(request.workspace, question), PAGE_EXPORTED)
    for number in pages.page_range:
        keys = list(pages.page(number).object_list)
        for row in explorer.rows(request.workspace, keys, question.moment):
            if row.yours is not None:
                yield row.yours.row

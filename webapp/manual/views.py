"""The pages of the documentation. They show nothing of any workspace."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.manual import pages

_MOST_CHARACTERS = 200


@require_safe
def contents(request: HttpRequest) -> HttpResponse:
    """Shows all pages; with `?q=` the sections that have its words."""
    asked = request.GET.get("q", "").strip()[:_MOST_CHARACTERS]
    context = {"groups": pages.groups(), "asked": asked, "found": pages.search(asked)}
    return render(request, "manual/contents.html", context)


@require_safe
def page(request: HttpRequest, name: str) -> HttpResponse:
    shown = pages.page(name)
    if shown is None:
        raise Http404
    return render(request, "manual/page.html", {"page": shown})

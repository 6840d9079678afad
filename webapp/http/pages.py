"""Middleware of pages, which the API does without: its operations know tokens, and no people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from django.conf import settings
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string

from webapp.http.problems import API_PATH

Answering = Callable[[HttpRequest], HttpResponse]


class PagesMiddleware:
    """Middleware that runs `PAGE_MIDDLEWARE` for all but the API. Each upload of an agent saves a
    third of its CPU.
    """

    def __init__(self, get_response: Answering) -> None:
        self._answer_api = self._answer_page = get_response
        self._seeing_views: list[Callable[..., HttpResponse | None]] = []
        for name in reversed(settings.PAGE_MIDDLEWARE):
            middleware = import_string(name)(self._answer_page)
            if hasattr(middleware, "process_view"):
                self._seeing_views.insert(0, middleware.process_view)
            self._answer_page = cast("Answering", convert_exception_to_response(middleware))

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._answer_api(request) if _is_api(request) else self._answer_page(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        if _is_api(request):
            return None
        answers = (see(request, view, args, kwargs) for see in self._seeing_views)
        return next((answer for answer in answers if answer is not None), None)


def _is_api(request: HttpRequest) -> bool:
    return request.path_info.startswith(API_PATH)

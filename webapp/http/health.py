"""Answers whether the process is alive, and whether it can do its work."""

from __future__ import annotations

from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from advisor.store.opening import open_store


@require_safe
def alive(_request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def ready(_request: HttpRequest) -> JsonResponse:
    """Answer 200 if rows, Redis and objects are available; otherwise 503, naming what isn't."""
    parts = {"database": _database, "redis": _redis, "objects": _objects}
    state = {name: _tried(check) for name, check in parts.items()}
    healthy = all(answer == "ok" for answer in state.values())
    return JsonResponse(state, status=200 if healthy else 503)


def _tried(check) -> str:  # type: ignore[no-untyped-def]
    try:
        check()
    except Exception as error:
        return type(error).__name__
    return "ok"


def _database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _redis() -> None:
    cache.set("readyz", "1", timeout=5)


def _objects() -> None:
    open_store(settings.OBJECTS_URL).exists("readyz")

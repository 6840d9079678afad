"""The address that people and agents use for this service."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def address_of(request: HttpRequest) -> str:
    """Return the configured address or, without one, that under which this request reached the
    service.
    """
    if settings.BASE_URL_IS_SET:
        return settings.BASE_URL
    return f"{request.scheme}://{request.get_host()}"

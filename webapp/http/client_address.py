"""The address that a request comes from."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest

UNKNOWN = "unknown"
"""The address of a client that has none."""


def client_address(request: HttpRequest) -> str:
    """The IP address that a request comes from, as far as it can be trusted.

    Anybody can send `X-Forwarded-For`, but each trusted proxy (`TRIMTAB_TRUSTED_PROXIES` of them)
    appends the address that connected to it. So the entry of the outermost trusted proxy is true,
    and nothing before that entry is. Without proxies it is the peer of the connection.
    """
    peer = request.META.get("REMOTE_ADDR") or UNKNOWN
    forwarded = request.headers.get("X-Forwarded-For", "").split(",")
    proxies = settings.TRUSTED_PROXIES
    if not 0 < proxies <= len(forwarded):
        return peer
    try:
        return str(ipaddress.ip_address(forwarded[-proxies].strip()))
    except ValueError:
        return peer

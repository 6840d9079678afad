"""The address that a request comes from, and that of this service."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest

UNKNOWN = "unknown"
"""The address of a client that has none."""


def client_address(request: HttpRequest) -> str:
    """Return the IP address that a request comes from, as far as it can be trusted."""
    peer = request.META.get("REMOTE_ADDR") or UNKNOWN
    return find_client_address(peer, request.headers.get("X-Forwarded-For", ""))


def find_client_address(peer: str, forwarded_for: str) -> str:
    """Return the client's address, from the peer of the connection and the header
    `X-Forwarded-For`.

    Anybody can send `X-Forwarded-For`, but each trusted proxy (`TRIMTAB_TRUSTED_PROXIES` of them)
    appends the address that connected to it. So the entry of the outermost trusted proxy is true,
    and nothing before that entry is. Without proxies it is the peer of the connection.
    """
    forwarded = forwarded_for.split(",")
    proxies = settings.TRUSTED_PROXIES
    if not 0 < proxies <= len(forwarded):
        return peer
    try:
        return str(ipaddress.ip_address(forwarded[-proxies].strip()))
    except ValueError:
        return peer


@lru_cache(10_000)
def to_network(address: str) -> str:
    """Return the network that limits count together: the /64 of an IPv6 address, which has one
    holder.

    A listener for both protocols reports IPv4 addresses as IPv6 ones, which would share one /64.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network(f"{address.partition('%')[0]}/64", strict=False))


def own_url(request: HttpRequest) -> str:
    """Return the configured address or, without one, that under which this request reached the
    service.
    """
    if settings.BASE_URL_IS_SET:
        return settings.BASE_URL
    return f"{request.scheme}://{request.get_host()}"

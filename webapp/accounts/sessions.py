"""Lists where a person is signed in, and ends sessions.

Django keeps the sessions. A row of ours beside each one says whose it is and where it is used, so
that sessions can be listed and ended by person.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from django.contrib.sessions.models import Session
from django.db import IntegrityError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from webapp.accounts.models import SignedInSession, User
from webapp.http.addresses import UNKNOWN, client_address, to_network

TOUCH_EVERY = timedelta(minutes=1)
# The first that matches names it: Chrome's text also contains Safari, and Edge's contains both.
_BROWSERS = {
    "Edg": "Edge",
    "OPR/": "Opera",
    "Firefox/": "Firefox",
    "FxiOS/": "Firefox",
    "Chrome/": "Chrome",
    "CriOS/": "Chrome",
    "Safari/": "Safari",
}
_SYSTEMS = {
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Android": "Android",
    "CrOS": "ChromeOS",
    "Windows": "Windows",
    "Mac OS X": "macOS",
    "Linux": "Linux",
}


def active_sessions(user: User) -> QuerySet[SignedInSession]:
    """Return the sessions that haven't expired, the most recently used first."""
    current = SignedInSession.objects.filter(user=user, session__expire_date__gt=timezone.now())
    return current.order_by("-last_seen_at")


def record_session(request: HttpRequest, user: User) -> None:
    """Record where a session is used. Call right after the sign-in."""
    request.session.save()
    _record(request, user)


def update_session(request: HttpRequest, user: User) -> None:
    """Update when and where a session was last used, at most once a minute."""
    recent = timezone.now() - TOUCH_EVERY
    known = SignedInSession.objects.filter(session=request.session.session_key)
    if not known.filter(last_seen_at__gt=recent).exists():
        # The session may have ended since this request began.
        with suppress(IntegrityError):
            _record(request, user)


def end_sessions(held: QuerySet[SignedInSession]) -> int:
    """Sign these sessions out; return how many there were."""
    keys = list(held.values_list("session_id", flat=True))
    Session.objects.filter(pk__in=keys).delete()
    return len(keys)


def end_others(request: HttpRequest, user: User) -> None:
    """Sign a person out everywhere but in this session."""
    everywhere = SignedInSession.objects.filter(user=user)
    end_sessions(everywhere.exclude(session=request.session.session_key))


def is_used_from(email: str, address: str) -> bool:
    """Return whether this account is signed in somewhere in the network of `address`."""
    held = SignedInSession.objects.filter(user__email=email).values_list("address", flat=True)
    return to_network(address) in {to_network(each) for each in held if each}


def device_name(user_agent: str) -> str:
    """Return a browser and its system in words, from the `User-Agent` header."""
    browser = next((name for sign, name in _BROWSERS.items() if sign in user_agent), "")
    system = next((name for sign, name in _SYSTEMS.items() if sign in user_agent), "")
    return " on ".join(filter(None, (browser, system))) or "Unknown device"


def _record(request: HttpRequest, user: User) -> None:
    address = client_address(request)
    SignedInSession.objects.update_or_create(
        session_id=request.session.session_key,
        defaults={
            "user": user,
            "address": None if address == UNKNOWN else address,
            "user_agent": request.headers.get("User-Agent", "")[:300].replace("\0", ""),
            "last_seen_at": timezone.now(),
        },
    )

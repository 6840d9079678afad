"""Passwords: the link to a new one, and whose sign-ins are counted."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.tokens import default_token_generator
from django.http import HttpRequest
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode

from webapp.accounts import mails
from webapp.accounts.models import User
from webapp.http.client_address import UNKNOWN, client_address


def attempted_name(_request: HttpRequest | None, credentials: dict[str, Any] | None) -> str:
    """The address that a sign-in was tried with, as accounts are known.

    Django tells of it as `username`, axes by the name of the model's field.
    """
    given = (credentials or {}).get("username") or (credentials or {}).get("email") or ""
    return User.normalised(str(given))[:254]


def attempting_address(request: HttpRequest) -> str | None:
    """Where a sign-in comes from; None where that is no IP address, as over a Unix socket."""
    address = client_address(request)
    return address if address != UNKNOWN else None


def send_link(email: str) -> None:
    """Mail a link to whoever has this address; nothing else tells whether somebody has."""
    user = User.objects.filter(email=User.normalised(email), is_active=True).first()
    if user is not None:
        key = urlsafe_base64_encode(force_bytes(user.pk))
        token = default_token_generator.make_token(user)
        link = settings.BASE_URL + reverse("accounts:new_password", args=[key, token])
        mails.send_password_link(user, link)


def owner_of_link(user_key: str, reset_token: str) -> User | None:
    """Whose link this is; None: used, over an hour old, or never made."""
    try:
        pk = int(urlsafe_base64_decode(user_key))
    except (ValueError, OverflowError):
        return None
    user = User.objects.filter(pk=pk, is_active=True).first() if pk < 2**63 else None
    if user is None or not default_token_generator.check_token(user, reset_token):
        return None
    return user

"""Passwords: limits of attempts, and the link to a new one."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.tokens import default_token_generator
from django.http import HttpRequest
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode

from webapp.accounts import sessions, signals
from webapp.accounts.models import User
from webapp.http import rate_limits
from webapp.http.addresses import UNKNOWN, client_address, to_network

SIGN_IN_MINUTES = 15
RESET_MINUTES = 60
TRIES_A_MINUTE = 10
"""The number of times a minute that a signed-in person may enter the current password."""


def seconds_until_sign_in(request: HttpRequest, email: str) -> int:
    """Count a sign-in by its address and account; return 0 if it may be tried.

    Where the account is signed in already, only the address counts: others can't lock people out.
    """
    address, email = client_address(request), User.normalise_email(email)
    wait = rate_limits.seconds_until_address_may(
        "sign-in", address, settings.ADDRESS_SIGN_INS, SIGN_IN_MINUTES
    )
    if wait:
        return wait
    wait = rate_limits.seconds_until_account_may(
        "sign-in", email, settings.ACCOUNT_SIGN_INS, SIGN_IN_MINUTES
    )
    return 0 if wait and sessions.is_used_from(email, address) else wait


def seconds_until_reset(request: HttpRequest) -> int:
    """Count a request for a link by its address; return 0 if it may be sent."""
    return rate_limits.seconds_until_address_may(
        "password-reset",
        client_address(request),
        settings.ADDRESS_PASSWORD_RESETS,
        RESET_MINUTES,
    )


def attempted_name(_request: HttpRequest | None, credentials: dict[str, Any] | None) -> str:
    """Return the email address that a sign-in was tried with, normalised as accounts are.

    Django passes it as `username`, axes under the name of the model's field.
    """
    given = (credentials or {}).get("username") or (credentials or {}).get("email") or ""
    return User.normalise_email(str(given))[:254]


def attempting_address(request: HttpRequest) -> str | None:
    """Return the network that a sign-in comes from, by its first address; None over a Unix
    socket.
    """
    address = client_address(request)
    return None if address == UNKNOWN else to_network(address).partition("/")[0]


def ask_for_link(email: str) -> None:
    """Have a link mailed to the account, if there is one. Takes the same time if there is none."""
    signals.password_reset_asked.send(sender=User, email=User.normalise_email(email))


def reset_link(user: User) -> str:
    """Return a link to a new password, valid until the next sign-in, for an hour at most."""
    key = urlsafe_base64_encode(force_bytes(user.pk))
    token = default_token_generator.make_token(user)
    return settings.BASE_URL + reverse("accounts:new_password", args=[key, token])


def owner_of_link(user_key: str, reset_token: str) -> User | None:
    """Return the person of a link; None if it was used, is over an hour old, or invalid."""
    try:
        pk = int(urlsafe_base64_decode(user_key))
    except (ValueError, OverflowError):
        return None
    user = User.objects.filter(pk=pk, is_active=True).first() if pk < 2**63 else None
    if user is None or not default_token_generator.check_token(user, reset_token):
        return None
    return user

"""Two-factor sign-in: codes of an authenticator app, and recovery codes.

django-otp checks codes: each can be used once, and after each wrong code the wait doubles.
"""

from __future__ import annotations

import secrets

from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from django_otp.models import Device
from django_otp.plugins.otp_totp.models import TOTPDevice

from webapp.accounts import audit, scope, sessions
from webapp.accounts.models import RecoveryCodes, SignedInSession, User, Workspace, digest

RECOVERY_CODES = 10
BY_PROVIDER = "signed_in_by_provider"
"""Session key: single sign-on began this session, so the provider's factors count."""
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
"""The characters of codes, without those that look alike."""
_CODE_CHARACTERS = 16
"""The length of codes: 79 bits, so that a stored digest can't be reversed by trying all codes."""


class TooManyCodesError(Exception):
    """Raised after wrong codes: for a while no code is checked."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"Too many wrong codes. Try again in {seconds} s.")


def is_on(user: User) -> bool:
    """Return whether sign-in by password or link asks this person for a code."""
    return bool(TOTPDevice.objects.filter(user=user, confirmed=True).exists())


def people_with(workspace: Workspace) -> set[int]:
    """Return the ids of the members who have switched it on."""
    apps = TOTPDevice.objects.filter(user__workspaces=workspace, confirmed=True)
    return set(apps.values_list("user_id", flat=True))


def is_satisfied(request: HttpRequest) -> bool:
    """Return whether this session may open workspaces that require two factors."""
    is_verified: bool = request.user.is_verified()  # type: ignore[union-attr]
    return is_verified or bool(request.session.get(BY_PROVIDER))


def pending_app(user: User) -> TOTPDevice:
    """Return the app that the person is setting up; its secret stays the same until it is
    confirmed.
    """
    device, _ = TOTPDevice.objects.get_or_create(
        user=user, confirmed=False, defaults={"name": "Authenticator app"}
    )
    return device


@transaction.atomic
def enable_two_factor(user: User, code: str) -> tuple[TOTPDevice, list[str]] | None:
    """Confirm the app by a code of it.

    Returns:
        The app and the new recovery codes, which can't be shown again; None: the code is wrong.

    Raises:
        TooManyCodesError: after wrong codes.
    """
    app = TOTPDevice.objects.select_for_update().filter(user=user, confirmed=False).first()
    if app is None or is_on(user) or not _accepts(app, code):
        return None
    app.confirmed = True
    app.save(update_fields=["confirmed"])
    _record(user, user, "two_factor.enabled")
    return app, new_recovery_codes(user)


@transaction.atomic
def disable_two_factor(user: User, by: User | None) -> None:
    """Delete app and recovery codes. `by` is None for the operator."""
    TOTPDevice.objects.filter(user=user).delete()
    RecoveryCodes.objects.filter(user=user).delete()
    _record(user, by, "two_factor.disabled" if by else "two_factor.reset")


@transaction.atomic
def reset(user: User) -> None:
    """Switch two-factor sign-in off for a person who lost the phone and all codes, and sign them
    out everywhere.
    """
    disable_two_factor(user, None)
    sessions.end_sessions(SignedInSession.objects.filter(user=user))


@transaction.atomic
def new_recovery_codes(user: User) -> list[str]:
    """Replace the recovery codes; the new ones can't be shown again."""
    codes = [_random_code() for _ in range(RECOVERY_CODES)]
    RecoveryCodes.objects.update_or_create(
        user=user,
        defaults={
            "name": "Recovery codes",
            "digests": [digest(_plain(code)) for code in codes],
            "throttling_failure_count": 0,
            "throttling_failure_timestamp": None,
        },
    )
    return codes


def recovery_codes_left(user: User) -> int:
    codes = RecoveryCodes.objects.filter(user=user).first()
    return len(codes.digests) if codes else 0


@transaction.atomic
def accept_code(user: User, code: str) -> Device | None:
    """Return the app or the set of recovery codes that `code` is valid for; the code is used up.

    Raises:
        TooManyCodesError: after wrong codes.
    """
    plain = _plain(code)
    kind = TOTPDevice if plain.isdecimal() and len(plain) == 6 else RecoveryCodes
    device = kind.objects.select_for_update().filter(user=user, confirmed=True).first()
    return device if device is not None and _accepts(device, plain) else None


def _accepts(device: TOTPDevice | RecoveryCodes, code: str) -> bool:
    is_allowed, why = device.verify_is_allowed()
    if not is_allowed:
        wait = why["locked_until"] - timezone.now()
        raise TooManyCodesError(max(1, round(wait.total_seconds())))
    return bool(device.verify_token(_plain(code)))


def _plain(code: str) -> str:
    """Return a code as it is stored: people type spaces, hyphens and capitals."""
    return "".join(code.split()).replace("-", "").lower()


def _random_code() -> str:
    characters = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_CHARACTERS))
    return "-".join(characters[start : start + 4] for start in range(0, _CODE_CHARACTERS, 4))


def _record(user: User, by: User | None, action: str) -> None:
    for workspace in scope.workspaces_of(user):
        audit.record(workspace, by, action, user.email)

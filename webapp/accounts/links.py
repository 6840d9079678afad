"""One-time sign-in links: validity and use."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from webapp.accounts.models import SignInLink, User, digest


def find(secret: str) -> SignInLink | None:
    return SignInLink.objects.select_related("user").filter(digest=digest(secret)).first()


def problem(link: SignInLink | None) -> str:
    """Return why this link is invalid: unknown, used or expired; empty if it is valid."""
    if link is None or not link.user.is_active:
        return "unknown"
    if link.used_at is not None:
        return "used"
    return "expired" if link.expires_at <= timezone.now() else ""


@transaction.atomic
def burn(secret: str) -> User | None:
    """Use the link up and return its person, or None if it was used before, even a moment ago."""
    now = timezone.now()
    unused = SignInLink.objects.filter(digest=digest(secret), used_at=None, expires_at__gt=now)
    if unused.update(used_at=now) != 1:
        return None
    return SignInLink.objects.select_related("user").get(digest=digest(secret)).user

"""Accounts of people, by their email address."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from webapp.accounts import members
from webapp.accounts.models import Invitation, Membership, User, Workspace


def find_user(email: str) -> User | None:
    return User.objects.filter(email=User.normalise_email(email)).first()


def active(user_id: int) -> User | None:
    return User.objects.filter(pk=user_id, is_active=True).first()


@transaction.atomic
def join(invitation: Invitation, given: dict[str, Any]) -> User | None:
    """Create the account of an invited person; `given` has name and password.

    None if the invitation was used or withdrawn a moment ago.
    """
    if not members.claim(invitation):
        return None
    user = User.objects.create_user(invitation.email, given["password"], name=given["name"])
    members.join(invitation.workspace, user, invitation.role)
    return user


@transaction.atomic
def vouched_for(email: str, name: str) -> User | None:
    """Return the account of an address that the provider has verified; None if the person has no
    access.

    An invited person gets an account with the memberships offered. A person from an allowed domain
    gets one as a viewer. An existing account gains nothing: removed members stay removed.
    """
    user = find_user(email)
    if user is not None:
        return user if user.is_active else None
    offered = list(_offered(email))
    if not offered and not _is_of_an_allowed_domain(email):
        return None
    user = User.objects.create_user(email, name=name[:120])
    for invitation in offered:
        members.accept(invitation, user)
    if not offered:
        _let_in_as_viewer(user)
    return user


def _offered(email: str) -> QuerySet[Invitation]:
    still_open = Invitation.objects.filter(
        email=email, expires_at__gt=timezone.now(), workspace__deleted_at=None
    )
    return still_open.select_related("workspace")


def _is_of_an_allowed_domain(email: str) -> bool:
    return email.rpartition("@")[2] in settings.OIDC_ALLOWED_DOMAINS


def _let_in_as_viewer(user: User) -> None:
    """Add the person to the oldest workspace that isn't sample data."""
    kept = Workspace.objects.filter(is_sample_data=False, deleted_at=None)
    workspace = kept.order_by("pk").first()
    if workspace is not None:
        members.join(workspace, user, Membership.VIEWER)

"""Accounts of people, by their address."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from webapp.accounts import members
from webapp.accounts.models import Invitation, Membership, User, Workspace


def known(email: str) -> User | None:
    return User.objects.filter(email=User.normalised(email)).first()


@transaction.atomic
def join(invitation: Invitation, given: dict[str, Any]) -> User | None:
    """A new account that takes the offered seat; `given` has name and password.

    None: the seat was taken or withdrawn a moment ago.
    """
    if not members.claim(invitation):
        return None
    user = User.objects.create_user(invitation.email, given["password"], name=given["name"])
    members.join(invitation.workspace, user, invitation.role)
    return user


@transaction.atomic
def vouched_for(email: str, name: str) -> User | None:
    """The account of an address that the provider has verified; None: they may not come in.

    Whoever is invited gets one, and the seats offered; so does who is of an allowed domain, as a
    viewer. An existing account gains nothing here: whoever an owner removed stays out.
    """
    user = known(email)
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
    """Of the oldest workspace that isn't the sample's."""
    kept = Workspace.objects.filter(is_sample_data=False, deleted_at=None)
    workspace = kept.order_by("pk").first()
    if workspace is not None:
        members.join(workspace, user, Membership.VIEWER)

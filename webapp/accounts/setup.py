"""The first workspace and its owner, and the sign-in link and token that `manage.py up` prints."""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from webapp.accounts.models import Membership, SignInLink, Token, User, Workspace, digest

OWNER_EMAIL = "owner@localhost"
LINK_LIFETIME = timedelta(hours=24)


@transaction.atomic
def first_workspace() -> Workspace:
    """Return the oldest workspace without sample data; created with its owner if there is none."""
    return _workspace("My workspace", is_sample_data=False)


@transaction.atomic
def sample_workspace() -> Workspace:
    """Return the workspace of simulated runs."""
    return _workspace("Sample data", is_sample_data=True)


def _workspace(name: str, is_sample_data: bool) -> Workspace:
    kept = Workspace.objects.filter(is_sample_data=is_sample_data, deleted_at=None)
    workspace = kept.order_by("pk").first()
    if workspace is not None:
        return workspace
    return new_workspace(name, _owner(), is_sample_data=is_sample_data)


@transaction.atomic
def new_workspace(name: str, owner: User, is_sample_data: bool = False) -> Workspace:
    """Return a workspace with its first owner."""
    workspace = Workspace.objects.create(name=name, is_sample_data=is_sample_data)
    Membership.objects.create(workspace=workspace, user=owner, role=Membership.OWNER)
    return workspace


def _owner() -> User:
    owner = User.objects.order_by("pk").first()
    return owner or User.objects.create_user(OWNER_EMAIL, name="Owner")


def sign_in_link(workspace: Workspace, base_url: str) -> str:
    """Return a URL of this service that signs the workspace's owner in, once, within a day."""
    owner = workspace.memberships.filter(role=Membership.OWNER).select_related("user").first()
    if owner is None:
        raise ValueError(f"{workspace} has no owner")
    secret = secrets.token_urlsafe(30)
    expires_at = timezone.now() + LINK_LIFETIME
    SignInLink.objects.create(user=owner.user, digest=digest(secret), expires_at=expires_at)
    return base_url + reverse("accounts:use_link", args=[secret])


def new_token(workspace: Workspace, name: str, scopes: list[str]) -> str:
    """Return the plain text of a new token, which isn't stored."""
    return Token.make(workspace, name, scopes)[1]

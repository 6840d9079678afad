"""Decides who may use a page.

By default, viewers of the current workspace may read a page, and members may change things with it.
Decorators allow fewer or more people.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

from django.http import HttpRequest

from webapp.accounts.models import Membership, Token, User, Workspace

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_ATTRIBUTE = "audiences"

View = TypeVar("View", bound=Callable[..., Any])


class Audience(IntEnum):
    """Each includes those below it."""

    EVERYBODY = 0
    SIGNED_IN = 1
    VIEWERS = 2
    MEMBERS = 3
    OWNERS = 4


ROLES = {
    Membership.VIEWER: Audience.VIEWERS,
    Membership.MEMBER: Audience.MEMBERS,
    Membership.OWNER: Audience.OWNERS,
}


class PersonRequest(HttpRequest):
    """A request of a signed-in person to a page of their current workspace."""

    user: User
    workspace: Workspace
    membership: Membership
    is_owner: bool
    may_change: bool


class TokenRequest(HttpRequest):
    """A request to the API; the token names the workspace."""

    auth: Token


def open_to_everybody(view: View) -> View:
    """Mark views that show nothing of any workspace, or are protected by a secret in the URL."""
    return _marked(view, Audience.EVERYBODY, Audience.EVERYBODY)


def signed_in_only(view: View) -> View:
    """Mark views about the person: they need no workspace."""
    return _marked(view, Audience.SIGNED_IN, Audience.SIGNED_IN)


def open_to_viewers(view: View) -> View:
    """Mark views in which viewers may also change their own settings."""
    return _marked(view, Audience.VIEWERS, Audience.VIEWERS)


def members_only(view: View) -> View:
    """Mark forms that viewers may not open."""
    return _marked(view, Audience.MEMBERS, Audience.MEMBERS)


def owners_only(view: View) -> View:
    """Mark views of access, money settings and deletion."""
    return _marked(view, Audience.OWNERS, Audience.OWNERS)


def changed_by_owners(view: View) -> View:
    """Mark settings that viewers may read."""
    return _marked(view, Audience.VIEWERS, Audience.OWNERS)


def audience(view: Callable[..., Any], method: str) -> Audience:
    """Return who may call `view` with `method`."""
    reading, changing = getattr(view, _ATTRIBUTE, (Audience.VIEWERS, Audience.MEMBERS))
    return Audience(reading if method in SAFE_METHODS else changing)


def belongs(membership: Membership | None, wanted: Audience) -> bool:
    """Return whether a signed-in person with this membership (None: no workspace) belongs to
    `wanted`.
    """
    held = Audience.SIGNED_IN if membership is None else ROLES[membership.role]
    return held >= wanted


def _marked(view: View, reading: Audience, changing: Audience) -> View:
    setattr(view, _ATTRIBUTE, (reading, changing))
    return view

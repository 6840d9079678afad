"""Who may use a page. What a view doesn't say is decided here, on the safe side.

A view is for the members of the workspace that the person looks at: reading is for viewers and up,
anything that changes something for members and up. A view that is for fewer or for more people
says so by one of the decorators.
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
    """A request of a signed-in person to a page of the workspace that they look at."""

    user: User
    workspace: Workspace
    membership: Membership
    is_owner: bool
    may_change: bool


class TokenRequest(HttpRequest):
    """A request to the API; the token names the workspace."""

    auth: Token


def open_to_everybody(view: View) -> View:
    """Shows nothing of any workspace, or has its own key (a secret in the address)."""
    return _marked(view, Audience.EVERYBODY, Audience.EVERYBODY)


def signed_in_only(view: View) -> View:
    """About the person alone: no workspace is needed."""
    return _marked(view, Audience.SIGNED_IN, Audience.SIGNED_IN)


def open_to_viewers(view: View) -> View:
    """Viewers may also change something here, of their own."""
    return _marked(view, Audience.VIEWERS, Audience.VIEWERS)


def members_only(view: View) -> View:
    """A form that only they may send."""
    return _marked(view, Audience.MEMBERS, Audience.MEMBERS)


def owners_only(view: View) -> View:
    """Access, money settings, deletion."""
    return _marked(view, Audience.OWNERS, Audience.OWNERS)


def changed_by_owners(view: View) -> View:
    """Settings that every member may read."""
    return _marked(view, Audience.VIEWERS, Audience.OWNERS)


def audience(view: Callable[..., Any], method: str) -> Audience:
    """Who may call `view` with `method`."""
    reading, changing = getattr(view, _ATTRIBUTE, (Audience.VIEWERS, Audience.MEMBERS))
    return Audience(reading if method in SAFE_METHODS else changing)


def belongs(membership: Membership | None, wanted: Audience) -> bool:
    """Whether a signed-in person with this membership (None: in no workspace) is among `wanted`."""
    held = Audience.SIGNED_IN if membership is None else ROLES[membership.role]
    return held >= wanted


def _marked(view: View, reading: Audience, changing: Audience) -> View:
    setattr(view, _ATTRIBUTE, (reading, changing))
    return view

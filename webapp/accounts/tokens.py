"""Tokens of agents and scripts: created, shown once, kept by an owner, revoked."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from webapp.accounts import audit
from webapp.accounts.access import Audience, belongs
from webapp.accounts.models import Membership, Token, User, Workspace

MOST_TOKENS = 200


@transaction.atomic
def create_token(
    workspace: Workspace, by: User, name: str, scopes: list[str], days: int | None
) -> tuple[Token, str]:
    """Return a new token and its plain text. With `days` None the token never expires."""
    expires_at = None if days is None else timezone.now() + timedelta(days=days)
    token, plain = Token.make(workspace, name, scopes, created_by=by, expires_at=expires_at)
    change = {"scopes": (None, scopes), "expires_at": (None, expires_at and str(expires_at))}
    audit.record(workspace, by, "token.created", str(token), change)
    return token, plain


@transaction.atomic
def revoke(token: Token, by: User) -> None:
    token.revoked_at = token.revoked_at or timezone.now()
    token.save(update_fields=["revoked_at"])
    audit.record(token.workspace, by, "token.revoked", str(token))


@transaction.atomic
def keep_token(token: Token, by: User) -> None:
    """Keep the token of a member who is removed: it stays valid.

    The creator stays on record, so that a token doesn't gain the permissions of an owner while its
    creator may still have a copy.
    """
    before = token.kept_by or token.created_by
    token.kept_by = by
    token.save(update_fields=["kept_by"])
    change = {"kept_by": (before and before.email, by.email)}
    audit.record(token.workspace, by, "token.kept", str(token), change)


def may_revoke(membership: Membership, token: Token) -> bool:
    """Return whether a member may revoke a token: owners any, members their own."""
    if belongs(membership, Audience.OWNERS):
        return True
    return belongs(membership, Audience.MEMBERS) and token.created_by_id == membership.user_id

"""Selects the workspaces, people, tokens and history that a person may see."""

from __future__ import annotations

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from webapp.accounts.models import AuditEntry, Invitation, Membership, Token, User, Workspace


def workspaces_of(user: User) -> QuerySet[Workspace]:
    """Return the workspaces that a person may open."""
    return Workspace.objects.filter(members=user, deleted_at=None)


def workspace_query(workspace: Workspace) -> QuerySet[Workspace]:
    """Return a query of one workspace, to read several things about it at once."""
    return Workspace.objects.filter(pk=workspace.pk)


def deleted_workspaces_of(owner: User) -> QuerySet[Workspace]:
    """Return the deleted workspaces that a person may restore, as one of their owners."""
    held = Q(memberships__user=owner, memberships__role=Membership.OWNER)
    return Workspace.objects.filter(held, deleted_at__isnull=False).order_by("name")


def memberships_held_by(user: User) -> QuerySet[Membership]:
    """Return the person's memberships, with their workspaces, without the deleted ones."""
    own = Membership.objects.filter(user=user, workspace__deleted_at=None)
    return own.select_related("workspace")


def memberships_of(workspace: Workspace) -> QuerySet[Membership]:
    return Membership.objects.filter(workspace=workspace).select_related("user")


def invitations_of(workspace: Workspace) -> QuerySet[Invitation]:
    """Return the open invitations, including expired ones."""
    return Invitation.objects.filter(workspace=workspace).order_by("email")


def tokens_of(workspace: Workspace) -> QuerySet[Token]:
    return Token.objects.filter(workspace=workspace)


def tokens_held_by(membership: Membership) -> QuerySet[Token]:
    """Return the valid tokens that a member created, or kept from removed members, in the
    workspace.
    """
    person = membership.user
    held = Q(kept_by=person) | Q(kept_by=None, created_by=person)
    valid = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    tokens = tokens_of(membership.workspace).filter(held, valid, revoked_at=None)
    return tokens.order_by(F("last_used_at").desc(nulls_last=True), "name")


def audit_of(workspace: Workspace) -> QuerySet[AuditEntry]:
    """Return the audit log, latest first."""
    return AuditEntry.objects.filter(workspace=workspace).order_by("-at", "-pk")

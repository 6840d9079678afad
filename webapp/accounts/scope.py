"""What a person may see of workspaces and of their people, tokens and history."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from webapp.accounts.models import AuditEntry, Invitation, Membership, Token, User, Workspace


def workspaces_of(user: User) -> QuerySet[Workspace]:
    """Those that a person may open."""
    return Workspace.objects.filter(members=user, deleted_at=None)


def deleted_workspaces_of(owner: User) -> QuerySet[Workspace]:
    """Those whose deletion a person may undo, as one of the owners."""
    held = Q(memberships__user=owner, memberships__role=Membership.OWNER)
    return Workspace.objects.filter(held, deleted_at__isnull=False).order_by("name")


def memberships_held_by(user: User) -> QuerySet[Membership]:
    """In workspaces that a person may open, with these."""
    own = Membership.objects.filter(user=user, workspace__deleted_at=None)
    return own.select_related("workspace")


def memberships_of(workspace: Workspace) -> QuerySet[Membership]:
    return Membership.objects.filter(workspace=workspace).select_related("user")


def invitations_of(workspace: Workspace) -> QuerySet[Invitation]:
    """Seats that are offered and not taken, the expired ones as well."""
    return Invitation.objects.filter(workspace=workspace).order_by("email")


def tokens_of(workspace: Workspace) -> QuerySet[Token]:
    return Token.objects.filter(workspace=workspace)


def audit_of(workspace: Workspace) -> QuerySet[AuditEntry]:
    """The latest first."""
    return AuditEntry.objects.filter(workspace=workspace).order_by("-at", "-pk")

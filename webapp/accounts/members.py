"""Members of a workspace: invitations, roles, leaving, removal. Each change is in the audit log."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from webapp.accounts import audit, scope, sessions, tokens
from webapp.accounts.models import (
    Invitation,
    Membership,
    SignedInSession,
    User,
    Workspace,
    digest,
)

INVITATION_LIFETIME = timedelta(days=7)


@transaction.atomic
def invite(workspace: Workspace, by: User, email: str, role: str) -> str:
    """Invite an address. Returns the secret of the link, which isn't stored.

    A second invitation of the same address replaces the first.

    Raises:
        ValidationError: that person is a member already.
    """
    email = User.normalise_email(email)
    if workspace.memberships.filter(user__email=email).exists():
        raise ValidationError(f"{email} is a member already.")
    secret = secrets.token_urlsafe(30)
    Invitation.objects.update_or_create(
        workspace=workspace,
        email=email,
        defaults={
            "role": role,
            "digest": digest(secret),
            "invited_by": by,
            "expires_at": timezone.now() + INVITATION_LIFETIME,
        },
    )
    audit.record(workspace, by, "invitation.sent", email, {"role": (None, role)})
    return secret


@transaction.atomic
def withdraw(invitation: Invitation, by: User) -> None:
    audit.record(invitation.workspace, by, "invitation.withdrawn", invitation.email)
    invitation.delete()


def open_invitation(secret: str) -> Invitation | None:
    """Return the invitation of a link; None if it was used, withdrawn, expired or unknown."""
    invitations = Invitation.objects.filter(
        digest=digest(secret), expires_at__gt=timezone.now(), workspace__deleted_at=None
    )
    return invitations.select_related("workspace", "invited_by").first()


@transaction.atomic
def accept(invitation: Invitation, user: User) -> bool:
    """Make the person a member; the link is used up. Return False if it was used or withdrawn
    before.
    """
    if not claim(invitation):
        return False
    join(invitation.workspace, user, invitation.role)
    return True


def claim(invitation: Invitation) -> bool:
    """Use the link up. Return False if another request was faster. Call in a transaction, then
    `join`.
    """
    return Invitation.objects.filter(pk=invitation.pk).delete()[0] > 0


def join(workspace: Workspace, user: User, role: str) -> None:
    """Add a member. A person who is a member already keeps the role."""
    _, is_new = Membership.objects.get_or_create(
        workspace=workspace, user=user, defaults={"role": role}
    )
    if is_new:
        audit.record(workspace, user, "member.joined", user.email, {"role": (None, role)})


@transaction.atomic
def change_role(membership: Membership, by: User, role: str) -> None:
    """Change a member's role. Raises ValidationError for the last owner, and for an unknown
    role.
    """
    if role not in dict(Membership.ROLES):
        raise ValidationError(f"There is no role {role[:40]!r}.")
    before = membership.role
    if before == role:
        return
    _keep_an_owner(membership)
    membership.role = role
    membership.save(update_fields=["role"])
    change = {"role": (before, role)}
    audit.record(membership.workspace, by, "member.changed", membership.user.email, change)


@transaction.atomic
def remove(membership: Membership, by: User, kept_tokens: Collection[int] = ()) -> None:
    """Remove a member, by an owner or by the person who leaves.

    The tokens whose ids are in `kept_tokens` become those of the owner; the person's other tokens
    in the workspace are revoked, also tokens created a moment ago. A person who was removed from
    their last workspace is signed out everywhere.

    Raises:
        ValidationError: the last owner can't go.
    """
    _keep_an_owner(membership)
    is_leaving = membership.user_id == by.pk
    for token in scope.tokens_held_by(membership):
        if token.pk in kept_tokens and not is_leaving:
            tokens.keep_token(token, by)
        else:
            tokens.revoke(token, by)
    action = "member.left" if is_leaving else "member.removed"
    audit.record(membership.workspace, by, action, membership.user.email)
    membership.delete()
    if not is_leaving and not scope.workspaces_of(membership.user).exists():
        sessions.end_sessions(SignedInSession.objects.filter(user=membership.user))


def _keep_an_owner(membership: Membership) -> None:
    """Locks the rows of all owners, so that the last two can't leave at the same moment."""
    owners = membership.workspace.memberships.filter(role=Membership.OWNER)
    others = [held for held in owners.select_for_update() if held.pk != membership.pk]
    if membership.role == Membership.OWNER and not others:
        raise ValidationError("A workspace needs an owner. Make somebody else an owner first.")

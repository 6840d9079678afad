"""Who is in a workspace: invitations, roles, leaving. Each change is written down."""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from webapp.accounts import audit
from webapp.accounts.models import Invitation, Membership, User, Workspace, digest

INVITATION_LIFETIME = timedelta(days=7)


@transaction.atomic
def invite(workspace: Workspace, by: User, email: str, role: str) -> str:
    """Offer a seat; the secret of its link, which is never seen again.

    Asking again for the same address makes a new link and ends the one before.

    Raises:
        ValidationError: that person is a member already.
    """
    email = User.normalised(email)
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
    """None: used, withdrawn, expired or never made."""
    invitations = Invitation.objects.filter(
        digest=digest(secret), expires_at__gt=timezone.now(), workspace__deleted_at=None
    )
    return invitations.select_related("workspace", "invited_by").first()


@transaction.atomic
def accept(invitation: Invitation, user: User) -> bool:
    """The person takes the seat; the link is used up. False: it was, or was withdrawn."""
    if not claim(invitation):
        return False
    join(invitation.workspace, user, invitation.role)
    return True


def claim(invitation: Invitation) -> bool:
    """Use the link up. False: somebody was faster. Call in a transaction, then `join`."""
    return Invitation.objects.filter(pk=invitation.pk).delete()[0] > 0


def join(workspace: Workspace, user: User, role: str) -> None:
    """A new member; whoever is one already keeps the role."""
    _, is_new = Membership.objects.get_or_create(
        workspace=workspace, user=user, defaults={"role": role}
    )
    if is_new:
        audit.record(workspace, user, "member.joined", user.email, {"role": (None, role)})


@transaction.atomic
def change_role(membership: Membership, by: User, role: str) -> None:
    """Raises ValidationError for the last owner, and for a role that isn't one."""
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
def remove(membership: Membership, by: User) -> None:
    """By an owner, or by the person who leaves. Raises ValidationError for the last owner."""
    _keep_an_owner(membership)
    action = "member.left" if membership.user_id == by.pk else "member.removed"
    audit.record(membership.workspace, by, action, membership.user.email)
    membership.delete()


def _keep_an_owner(membership: Membership) -> None:
    """The rows of all owners are locked, so that the last two can't go at the same moment."""
    owners = membership.workspace.memberships.filter(role=Membership.OWNER)
    others = [held for held in owners.select_for_update() if held.pk != membership.pk]
    if membership.role == Membership.OWNER and not others:
        raise ValidationError("A workspace needs an owner. Make somebody else an owner first.")

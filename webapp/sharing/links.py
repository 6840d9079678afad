"""Read-only links: created, shown once, opened, revoked."""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from webapp.accounts import audit
from webapp.accounts.access import Audience, belongs
from webapp.accounts.models import Membership, User, Workspace, digest
from webapp.runs.models import Run
from webapp.sharing.models import ShareLink

MOST_LISTED = 200
_SECRET_BYTES = 30
_TOUCH_EVERY = timedelta(minutes=1)


@transaction.atomic
def create_link(
    by: User, kind: str, run: Run, days: int, earlier: Run | None = None
) -> tuple[ShareLink, str]:
    """Return a new link and its secret, which isn't stored."""
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    link = ShareLink.objects.create(
        workspace=run.workspace,
        kind=kind,
        run=run,
        earlier=earlier,
        digest=digest(secret),
        created_by=by,
        expires_at=timezone.now() + timedelta(days=days),
    )
    change = {"expires_at": (None, str(link.expires_at))}
    audit.record(run.workspace, by, "share_link.created", str(link), change)
    return link, secret


def find_link(secret: str) -> ShareLink | None:
    """Return the link with this secret; None if it was revoked, has ended, never existed, or an
    owner switched sharing off.
    """
    links = ShareLink.objects.select_related("workspace").filter(
        digest=digest(secret),
        revoked_at=None,
        expires_at__gt=timezone.now(),
        workspace__allows_sharing=True,
        workspace__deleted_at=None,
    )
    return links.first()


def touch(link: ShareLink) -> None:
    """Record that the link was opened, at most once a minute."""
    now = timezone.now()
    if link.last_opened_at is None or now - link.last_opened_at > _TOUCH_EVERY:
        ShareLink.objects.filter(pk=link.pk).update(last_opened_at=now)


@transaction.atomic
def revoke_link(link: ShareLink, by: User) -> None:
    if link.revoked_at is None:
        link.revoked_at = timezone.now()
        link.save(update_fields=["revoked_at"])
        audit.record(link.workspace, by, "share_link.revoked", str(link))


def may_revoke(membership: Membership, link: ShareLink) -> bool:
    """Return whether a member may revoke a link: owners any, members their own."""
    if belongs(membership, Audience.OWNERS):
        return True
    return belongs(membership, Audience.MEMBERS) and link.created_by_id == membership.user_id


@transaction.atomic
def allow_sharing(workspace: Workspace, by: User, *, is_allowed: bool) -> None:
    """Switch all links of the workspace on or off. They are kept, and end when they say."""
    change = {"allows_sharing": (workspace.allows_sharing, is_allowed)}
    workspace.allows_sharing = is_allowed
    workspace.save(update_fields=["allows_sharing"])
    audit.record(workspace, by, "workspace.changed", workspace.name, change)

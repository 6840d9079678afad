"""The mails that a person may see: their own, in the current workspace."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.accounts.models import Membership
from webapp.notify.models import Mail, Subscription


def mails_to(member: Membership) -> QuerySet[Mail]:
    """Return the person's mails, the latest first."""
    own = Mail.objects.filter(user=member.user_id, workspace=member.workspace_id)
    return own.order_by("-created_at", "-pk")


def subscriptions_of(member: Membership) -> QuerySet[Subscription]:
    return Subscription.objects.filter(membership=member).select_related("membership")

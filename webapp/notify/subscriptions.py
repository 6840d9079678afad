"""Subscribes people to kinds of mail."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef
from django.utils import timezone

from webapp.accounts.models import Membership
from webapp.notify.kinds import KINDS
from webapp.notify.models import Mail, Subscription


def subscribe_member(instance: Membership, created: bool, raw: bool, **_: Any) -> None:
    """Subscribe a new member at once: they get mails about everything from now on.

    Receives Django's `post_save`; `raw` rows are restored ones.
    """
    if created and not raw:
        new = [Subscription(membership=instance, kind=kind) for kind in KINDS]
        Subscription.objects.bulk_create(new, ignore_conflicts=True)


def enrol(kind: str) -> None:
    """Subscribe every member without a subscription of this kind: an upgrade mails no history."""
    held = Subscription.objects.filter(membership=OuterRef("pk"), kind=kind)
    new = Membership.objects.filter(~Exists(held))
    Subscription.objects.bulk_create(
        [Subscription(membership=membership, kind=kind) for membership in new],
        ignore_conflicts=True,
    )


def switch(membership: Membership, kind: str, is_on: bool) -> Subscription:
    """Switch a kind on or off. Setting the same value again changes nothing."""
    held, _ = Subscription.objects.get_or_create(membership=membership, kind=kind)
    if held.is_on is not is_on:
        if is_on and not held.is_wanted:
            held.since = timezone.now()
        held.is_on = is_on
        held.save(update_fields=["is_on", "since"])
    return held


def still_wants(mail: Mail) -> bool:
    """Return whether the person is still a member and hasn't unsubscribed since it was written."""
    held = Subscription.objects.filter(
        kind=mail.kind,
        membership__user=mail.user_id,
        membership__user__is_active=True,
        membership__workspace=mail.workspace_id,
        membership__workspace__deleted_at=None,
    )
    subscription = held.select_related("membership").first()
    return subscription is not None and subscription.is_wanted

"""Finds the people who want a kind of mail."""

from __future__ import annotations

from collections import defaultdict

from webapp.notify.models import Subscription


def wanted_by_workspace(kind: str) -> dict[int, list[Subscription]]:
    """Return, by workspace, the subscriptions of its members who want this kind of mail."""
    held = Subscription.objects.filter(kind=kind, membership__user__is_active=True)
    by_workspace = defaultdict(list)
    for each in held.select_related("membership"):
        if each.is_wanted:
            by_workspace[each.membership.workspace_id].append(each)
    return by_workspace

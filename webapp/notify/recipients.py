"""Finds the channels that reach a person.

A channel without a form reaches everybody. A channel with a form reaches the people who filled it
in, for the workspace in which they did so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webapp.accounts.models import Membership, User, Workspace
from webapp.notify.channels import channels
from webapp.notify.channels.channel import Channel
from webapp.notify.models import ChannelSettings
from webapp.notify.notification_kind import DueNotification


def by_channel(due: list[DueNotification]) -> Iterator[tuple[DueNotification, str]]:
    """Yield pairs of notification and each channel that reaches its person."""
    with_form = {channel.id for channel in channels().values() if channel.form is not None}
    reached = _reached(due) if with_form else set()
    for each in due:
        for channel_id in channels():
            key = (each.user_id, each.workspace_id, channel_id)
            if channel_id not in with_form or key in reached:
                yield each, channel_id


def _reached(due: list[DueNotification]) -> set[tuple[int, int, str]]:
    held = ChannelSettings.objects.filter(
        membership__workspace__in={each.workspace_id for each in due}
    )
    return set(held.values_list("membership__user", "membership__workspace", "channel"))


def target(channel: Channel, user: User, workspace: Workspace) -> str | None:
    """Return the address of this person, or None if they haven't filled in the channel's form."""
    if channel.form is None:
        return channel.target(user, {})
    held = ChannelSettings.objects.filter(
        channel=channel.id, membership__user=user, membership__workspace=workspace
    ).first()
    return channel.target(user, held.entered) if held else None


def read_settings(channel: Channel, member: Membership) -> dict[str, Any] | None:
    """Return the person's settings, or None if they haven't filled in the form."""
    held = ChannelSettings.objects.filter(channel=channel.id, membership=member).first()
    return held.entered if held else None


def save_settings(channel: Channel, member: Membership, values: dict[str, Any]) -> None:
    """Save the settings, so that the channel reaches this person."""
    ChannelSettings.objects.update_or_create(
        channel=channel.id, membership=member, defaults={"entered": values}
    )


def delete_settings(channel: Channel, member: Membership) -> None:
    ChannelSettings.objects.filter(channel=channel.id, membership=member).delete()

"""System checks of the channels."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Tags, register

from webapp.notify.channels import channels


@register(Tags.compatibility)
def channels_are_configured(**_: Any) -> list[CheckMessage]:
    return [message for channel in channels().values() for message in channel.checks()]

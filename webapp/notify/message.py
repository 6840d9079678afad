"""The message that a channel sends to one person: subject, text to render, and where it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from webapp.notify.addresses import absolute_url, unsubscribe_url
from webapp.notify.models import Mail
from webapp.notify.notification_kind import MailContent, NotificationKind
from webapp.notify.text import one_line


@dataclass(frozen=True)
class Message:
    """One message to one person. `template` is rendered with `context`, as `.txt` or `.html`."""

    target: str
    subject: str
    template: str
    context: dict[str, Any]
    id: str = ""
    """The message's id, the same for every attempt. A test message has none."""
    unsubscribe_url: str = ""
    """The address to which a POST unsubscribes the person. A test message has none."""


def message(mail: Mail, kind: NotificationKind, content: MailContent, target: str) -> Message:
    """Return the message. It is the same for every attempt while the subject is the same."""
    unsubscribe = unsubscribe_url(mail)
    context = content.context | {
        "kind": kind,
        "workspace": one_line(mail.workspace.name),
        "settings_url": absolute_url(reverse("notify:notifications")),
        "unsubscribe_url": unsubscribe,
    }
    return Message(target, content.subject, content.template, context, mail.message_id, unsubscribe)


def test_message(channel_title: str, target: str) -> Message:
    """Return a message that people send to themselves as a test."""
    settings_url = absolute_url(reverse("notify:notifications"))
    context = {"settings_url": settings_url, "channel": channel_title}
    subject = f"Test {channel_title.lower()} from Trimtab"
    return Message(target, subject, "notify/test_mail", context)

"""A mail as it goes over the wire: plain text and HTML, and the headers that machines read."""

from __future__ import annotations

from typing import Any

from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.urls import reverse

from webapp.accounts.models import User
from webapp.notify.addresses import absolute, unsubscribe_url
from webapp.notify.letters import Kind, Letter
from webapp.notify.models import Mail
from webapp.notify.text import one_line

MOST_SUBJECT_CHARACTERS = 200
# Nobody's out-of-office answers a mail that says so (RFC 3834; Precedence is for older ones).
MADE_BY_A_MACHINE = {"Auto-Submitted": "auto-generated", "Precedence": "bulk"}


def compose(mail: Mail, kind: Kind, letter: Letter) -> EmailMultiAlternatives:
    """The same for every attempt, as far as what it tells of is still the same."""
    unsubscribe = unsubscribe_url(mail)
    context = letter.context | {
        "kind": kind,
        "workspace": one_line(mail.workspace.name),
        "settings_url": absolute(reverse("notify:notifications")),
        "unsubscribe_url": unsubscribe,
    }
    headers = {
        "Message-ID": mail.message_id,
        # RFC 8058: a mail program unsubscribes by itself, with one POST.
        "List-Unsubscribe": f"<{unsubscribe}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }
    return _message(mail.user, letter.subject, letter.template, context, headers)


def compose_test(user: User) -> EmailMultiAlternatives:
    """The mail that somebody sends to themselves to see whether it arrives."""
    context = {"settings_url": absolute(reverse("notify:notifications"))}
    return _message(user, "Test mail from Trimtab", "notify/test_mail", context, {})


def _message(
    user: User, subject: str, template: str, context: dict[str, Any], headers: dict[str, str]
) -> EmailMultiAlternatives:
    # `=?` begins an encoded word: a name could bring line ends in that way.
    subject = one_line(subject.replace("=?", "= ?"), MOST_SUBJECT_CHARACTERS)
    context = context | {"subject": subject}
    message = EmailMultiAlternatives(
        subject=subject,
        body=render_to_string(f"{template}.txt", context),
        to=[user.email],
        headers=MADE_BY_A_MACHINE | headers,
    )
    message.attach_alternative(render_to_string(f"{template}.html", context), "text/html")
    return message

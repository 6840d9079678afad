"""Mails about accounts: an invitation, a new password. Plain text: they hold one link."""

from __future__ import annotations

import logging
import smtplib

from django.conf import settings
from django.core.mail import send_mail
from django.template.loader import render_to_string

from webapp.accounts.models import Invitation, User

logger = logging.getLogger(__name__)


def send_invitation(invitation: Invitation, link: str) -> bool:
    """False if the mail server took it not: the link can be handed over by other means."""
    context = {"invitation": invitation, "link": link, "base_url": settings.BASE_URL}
    who = one_line(str(invitation.invited_by or "Somebody"))
    subject = f"{who} invited you to {one_line(invitation.workspace.name)} on Trimtab"
    return _send(subject, "accounts/mail/invitation.txt", context, invitation.email)


def send_password_link(user: User, link: str) -> bool:
    context = {"user": user, "link": link, "base_url": settings.BASE_URL}
    return _send("Reset your Trimtab password", "accounts/mail/password.txt", context, user.email)


def one_line(text: str) -> str:
    """Names come from people, and a header is one line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:80]


def _send(subject: str, template: str, context: dict[str, object], to: str) -> bool:
    try:
        send_mail(subject, render_to_string(template, context), None, [to])
    except (OSError, smtplib.SMTPException) as error:
        logger.warning("mail refused", extra={"error": type(error).__name__})
        return False
    return True

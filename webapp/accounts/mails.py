"""Mails about accounts: invitations and links to a new password. Plain text with one link."""

from __future__ import annotations

import logging
import smtplib

from django.conf import settings
from django.core.mail import EmailMessage
from django.template.loader import render_to_string

from webapp.accounts.models import Invitation, User

NO_MAIL_SERVER = tuple(
    f"django.core.mail.backends.{name}.EmailBackend" for name in ("console", "filebased")
)
"""The backends that write mails to a log or a folder, where the recipients don't read them."""

logger = logging.getLogger(__name__)


def send_invitation(invitation: Invitation, link: str) -> bool:
    """Mail an invitation. Return False if no mail server took it: then the inviter sends the
    link.
    """
    context = {"invitation": invitation, "link": link, "base_url": settings.BASE_URL}
    who = one_line(str(invitation.invited_by or "Somebody"))
    subject = f"{who} invited you to {one_line(invitation.workspace.name)} on Trimtab"
    mail = _mail(subject, "accounts/mail/invitation.txt", context, invitation.email)
    try:
        mail.send()
    except (OSError, smtplib.SMTPException) as error:
        logger.warning("mail refused", extra={"error": type(error).__name__})
        return False
    return settings.EMAIL_BACKEND not in NO_MAIL_SERVER


def password_mail(user: User, link: str) -> EmailMessage:
    context = {"user": user, "link": link, "base_url": settings.BASE_URL}
    return _mail("Reset your Trimtab password", "accounts/mail/password.txt", context, user.email)


def one_line(text: str) -> str:
    """Return a name without line ends, which a mail's header can't have."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:80]


def _mail(subject: str, template: str, context: dict[str, object], to: str) -> EmailMessage:
    return EmailMessage(subject, render_to_string(template, context), to=[to])

"""URLs and addresses in mails."""

from __future__ import annotations

from email.utils import parseaddr

from django.conf import settings
from django.core import signing
from django.urls import reverse
from django.utils.encoding import punycode

from webapp.accounts.models import Membership
from webapp.notify.models import Mail

_signer = signing.Signer(salt="webapp.notify.unsubscribe")


def absolute_url(path: str) -> str:
    return f"{settings.BASE_URL}{path}"


def sender_domain() -> str:
    """Return the domain of the sender and of every Message-ID."""
    return punycode(parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2])


def unsubscribe_url(mail: Mail) -> str:
    return absolute_url(reverse("notify:unsubscribe", args=[unsubscribe_token(mail)]))


def unsubscribe_token(mail: Mail) -> str:
    """Return a token that unsubscribes this person from this kind of mail. It works for anyone and
    never expires.
    """
    return _signer.sign(f"{mail.user_id}.{mail.workspace_id}.{mail.kind}")


def membership_and_kind(token: str) -> tuple[Membership | None, str]:
    """Return what an unsubscribe token refers to; the membership is None if the person is no longer
    a member.

    Raises signing.BadSignature for what we haven't signed.
    """
    user_id, workspace_id, kind = _signer.unsign(token).split(".", 2)
    held = Membership.objects.filter(user=int(user_id), workspace=int(workspace_id))
    return held.first(), kind

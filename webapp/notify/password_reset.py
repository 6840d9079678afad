"""Mails with a link to a new password.

The web server only writes a row for each request. The worker looks for the account, creates the
link and sends the mail, so that nobody learns from the answer or its time whether there is one.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from django.core.mail import get_connection
from django.db import transaction
from django.utils import timezone

from webapp.accounts import mails, passwords
from webapp.accounts.models import User
from webapp.background import claims, waking
from webapp.background.kinds import HIDDEN, WorkKind, WorkLimits
from webapp.notify.channels.mail import CHANNEL
from webapp.notify.models import PasswordReset

HOUR = timedelta(hours=1)
MOST_AN_HOUR = 3
"""The most mails of an account in an hour, so that nobody can flood a mailbox."""
KEPT = timedelta(days=1)
_LEASE = timedelta(seconds=CHANNEL.most_seconds)
KIND = WorkKind(
    id="password_reset",
    title="Password reset mail",
    model=PasswordReset,
    work="webapp.notify.password_reset.send",
    key="pk",
    limits=WorkLimits(
        lease=_LEASE,
        # Six attempts take a quarter of an hour on average: later, the person has asked again.
        max_attempts=6,
        first_pause=timedelta(seconds=30),
        longest_pause=timedelta(minutes=10),
    ),
    workspace=None,
    subject=lambda _: "Password reset",
    # Accounts belong to no workspace: no owner may see who asked. Errors are in the worker's log.
    shown=HIDDEN,
)

logger = logging.getLogger(__name__)


def request(*, email: str, **_: object) -> None:
    """Queue a mail; the same work whether or not there is an account."""
    recent = PasswordReset.objects.filter(email=email, created_at__gt=timezone.now() - HOUR)
    if recent.count() < MOST_AN_HOUR:
        reset = PasswordReset.objects.create(email=email)
        waking.wake_on_commit(KIND, pk=reset.pk)


def send(reset_id: int, **_: object) -> bool:
    """Send the mail if there is an account, and it had fewer than three in the last hour."""
    held = claims.claim(KIND, reset_id, due_at__lte=timezone.now())
    if held is None:
        return False
    user = _granted(held.row)
    if user is not None:
        try:
            _send(user)
        except Exception as error:
            _failed(held, error)
            return True
    claims.finish_work(held)
    return True


def forget_old() -> int:
    """Delete requests after a day; return how many rows there were."""
    return PasswordReset.objects.filter(created_at__lt=timezone.now() - KEPT).delete()[0]


@transaction.atomic
def _granted(reset: PasswordReset) -> User | None:
    """Return the account to mail; None if there is none, or it had its mails of this hour."""
    # The lock lets only one worker count at a time.
    user = User.objects.select_for_update().filter(email=reset.email, is_active=True).first()
    if user is None or reset.granted_at is not None:
        return user
    now = timezone.now()
    counted = PasswordReset.objects.filter(email=reset.email, granted_at__gt=now - HOUR)
    if counted.count() >= MOST_AN_HOUR:
        return None
    PasswordReset.objects.filter(pk=reset.pk).update(granted_at=now)
    return user


def _send(user: User) -> None:
    mail = mails.password_mail(user, passwords.reset_link(user))
    mail.connection = get_connection()
    mail.send()


def _failed(held: claims.WorkClaim[PasswordReset], error: Exception) -> None:
    failure = CHANNEL.failure(error)
    is_ours = not isinstance(error, OSError)
    logger.warning("password mail not sent", extra={"error": failure.text}, exc_info=is_ours)
    (claims.mark_failed if failure.is_final else claims.fail)(held, failure.text)

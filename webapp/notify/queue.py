"""The queue of mails and their results. The rows are background work.

A mail is sent at least once: it is sent again if we fail between the mail server's answer and our
commit. This gap is one UPDATE long, and the duplicate has the same Message-ID.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.utils import timezone

from webapp.background import claims
from webapp.background.kinds import WorkKind, WorkLimits
from webapp.notify import recipients
from webapp.notify.channels import channels
from webapp.notify.models import Mail
from webapp.notify.notification_kind import DueNotification
from webapp.notify.text import one_line

MOST_AT_ONCE = 50
MOST_ERROR_CHARACTERS = 500
# Time limit for one mail, and the delay until a killed worker is replaced.
_LEASE = timedelta(seconds=max(channel.most_seconds for channel in channels().values()))
KIND = WorkKind(
    id="mail",
    title="Mail",
    model=Mail,
    work="webapp.notify.delivery.send",
    key="pk",
    limits=WorkLimits(
        lease=_LEASE,
        # 30 attempts take half a day on average.
        max_attempts=30,
        max_kills=30,
        first_pause=timedelta(seconds=30),
        longest_pause=timedelta(hours=1),
        # The mails of a batch share one connection.
        batch=MOST_AT_ONCE,
    ),
    workspace="workspace",
    subject=lambda mail: f"{mail.about} (to {mail.user.email})",
    related=("user", "workspace"),
    given_up={"state": Mail.FAILED},
    tried_again={"state": Mail.WAITING},
)


def write(kind: str, due: Iterable[DueNotification], domain: str) -> int:
    """Write a row per channel for each notification that has none. Returns how many were written.

    A notification with a row on any channel is skipped, so a person's new channel starts with the
    next notification.
    """
    unwritten = recipients.by_channel(_unwritten(kind, list(due)))
    new = [_row(kind, each, channel, domain) for each, channel in unwritten]
    Mail.objects.bulk_create(new, ignore_conflicts=True, batch_size=500)
    return len(new)


def _unwritten(kind: str, due: list[DueNotification]) -> list[DueNotification]:
    keys = sorted({each.subject_key for each in due})
    written: set[tuple[int, str]] = set()
    for start in range(0, len(keys), 500):
        known = Mail.objects.filter(kind=kind, subject_key__in=keys[start : start + 500])
        written.update(known.values_list("user_id", "subject_key"))
    return [each for each in due if (each.user_id, each.subject_key) not in written]


def _row(kind: str, due: DueNotification, channel: str, domain: str) -> Mail:
    mail = Mail(
        user_id=due.user_id,
        workspace_id=due.workspace_id,
        kind=kind,
        channel=channel,
        subject_key=due.subject_key,
        about=one_line(due.about),
    )
    mail.message_id = f"<{mail.uuid}@{domain}>"
    return mail


def by_channel(mail_ids: Iterable[int]) -> dict[str, list[int]]:
    """Group these mails by channel id, in the same order."""
    ids = list(mail_ids)
    channel_of = dict(Mail.objects.filter(pk__in=ids).values_list("pk", "channel"))
    grouped: dict[str, list[int]] = {}
    for mail_id in ids:
        if mail_id in channel_of:
            grouped.setdefault(channel_of[mail_id], []).append(mail_id)
    return grouped


def claim(mail_id: int) -> claims.WorkClaim[Mail] | None:
    """Take a due mail; None if there is nothing to do or another worker has it."""
    return claims.claim(KIND, mail_id, due_at__lte=timezone.now())


def mark_sent(held: claims.WorkClaim[Mail]) -> None:
    """Mark it as sent, even if another worker holds the lease by now."""
    now = timezone.now()
    if not claims.finish_work(held, state=Mail.SENT, sent_at=now):
        mail = Mail.objects.filter(pk=held.pk)
        mail.update(state=Mail.SENT, sent_at=now, done=held.row.wanted, error="", given_up_at=None)


def withdraw(held: claims.WorkClaim[Mail], reason: str) -> None:
    """Mark it as done without sending it, for this reason."""
    claims.finish_work(held, state=Mail.WITHDRAWN, error=reason)


def fail(held: claims.WorkClaim[Mail], error: str) -> None:
    """Give up: keep the reason for people to see. It isn't retried automatically."""
    claims.mark_failed(held, one_line(error, MOST_ERROR_CHARACTERS))


def retry_later(held: claims.WorkClaim[Mail], error: str) -> None:
    """Try again after a pause, unless that was the last attempt."""
    claims.fail(held, one_line(error, MOST_ERROR_CHARACTERS))


def retry_mail(mail: Mail) -> bool:
    """Retry a failed mail because a person asked for it. Returns False if it hasn't failed."""
    return claims.retry_failed(KIND, Mail.objects.filter(pk=mail.pk)) == 1

"""Which mails are due, and who sends them. Celery carries ids; the rows are the truth.

A mail is sent at least once: what lies between the mail server's answer and our commit can't be
closed from one side. It's one UPDATE long, and a repetition has the same Message-ID.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable
from datetime import datetime, timedelta

from celery import current_app
from django.conf import settings
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError

from webapp.notify.letters import Due
from webapp.notify.models import Mail
from webapp.notify.text import one_line

TASK = "notify.send"
MOST_AT_ONCE = 50
# Full jitter: up to 30 s after the first failure, twice as much after each, an hour at the most.
# 30 attempts take half a day on average.
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=30), timedelta(hours=1)
MAX_ATTEMPTS = 30
MOST_ERROR_CHARACTERS = 500
STEPS_OF_A_DIALOGUE = 6
"""Sender, recipient, data, body, reset, and one to spare: each may last the time-out."""

logger = logging.getLogger(__name__)


def lease() -> timedelta:
    """How long one worker has for one mail; it's this long until a killed one is replaced."""
    return timedelta(seconds=settings.EMAIL_TIMEOUT * STEPS_OF_A_DIALOGUE)


def write(kind: str, due: Iterable[Due], domain: str) -> int:
    """A row for each that has none yet; how many there were to write."""
    new = [_row(kind, each, domain) for each in _unwritten(kind, list(due))]
    Mail.objects.bulk_create(new, ignore_conflicts=True, batch_size=500)
    return len(new)


def _unwritten(kind: str, due: list[Due]) -> list[Due]:
    keys = sorted({each.subject_key for each in due})
    written: set[tuple[int, str]] = set()
    for start in range(0, len(keys), 500):
        known = Mail.objects.filter(kind=kind, subject_key__in=keys[start : start + 500])
        written.update(known.values_list("user_id", "subject_key"))
    return [each for each in due if (each.user_id, each.subject_key) not in written]


def _row(kind: str, due: Due, domain: str) -> Mail:
    mail = Mail(
        user_id=due.user_id,
        workspace_id=due.workspace_id,
        kind=kind,
        subject_key=due.subject_key,
        about=one_line(due.about),
    )
    mail.message_id = f"<{mail.uuid}@{domain}>"
    return mail


def hand_out() -> int:
    """Send the ids of due mails to the broker; how many. Only one batch is under way at a time."""
    now = timezone.now()
    if _waiting().filter(queued_at__gt=now - lease()).exists():
        return 0
    ids = list(_free(now).order_by("due_at").values_list("pk", flat=True)[:MOST_AT_ONCE])
    if not ids:
        return 0
    Mail.objects.filter(pk__in=ids).update(queued_at=now)
    try:
        current_app.send_task(TASK, args=[ids], retry=False)
    except OperationalError as error:
        logger.warning("broker unreachable; the sweep tries again", extra={"error": str(error)})
    return len(ids)


def claim(mail_id: int) -> Mail | None:
    """Take a due mail; None if there is nothing to do or another worker has it."""
    now = timezone.now()
    taken = (
        _free(now).filter(pk=mail_id).update(leased_until=now + lease(), attempts=F("attempts") + 1)
    )
    if taken != 1:
        return None
    return Mail.objects.select_related("user", "workspace").get(pk=mail_id)


def sent(mail: Mail) -> None:
    """The server has it, whoever holds the lease by now."""
    Mail.objects.filter(pk=mail.pk).update(
        state=Mail.SENT, sent_at=timezone.now(), error="", leased_until=None, queued_at=None
    )


def withdraw(mail: Mail, reason: str) -> None:
    _end(mail, Mail.WITHDRAWN, reason)


def fail(mail: Mail, error: str) -> None:
    """Keep the reason for people to see; nobody tries again by himself."""
    _end(mail, Mail.FAILED, error)


def retry_later(mail: Mail, error: str) -> None:
    """Try again after a pause, unless that was the last attempt."""
    if mail.attempts >= MAX_ATTEMPTS:
        fail(mail, error)
        return
    _held(mail).update(
        error=one_line(error, MOST_ERROR_CHARACTERS),
        due_at=timezone.now() + _pause(mail.attempts),
        leased_until=None,
        queued_at=None,
    )


def give_up() -> None:
    """End what was tried too often without telling how it went: its workers were killed."""
    worn_out = _waiting().filter(_unleased(timezone.now()), attempts__gte=MAX_ATTEMPTS)
    error = f"Given up: the last of {MAX_ATTEMPTS} attempts ended without an answer."
    worn_out.update(state=Mail.FAILED, error=error, leased_until=None)


def send_again(mail: Mail) -> bool:
    """A person wants a failed mail tried anew; False if it isn't failed."""
    failed = Mail.objects.filter(pk=mail.pk, state=Mail.FAILED)
    fresh = {"state": Mail.WAITING, "attempts": 0, "due_at": timezone.now(), "queued_at": None}
    return failed.update(**fresh) == 1


def _end(mail: Mail, state: str, reason: str) -> None:
    told = one_line(reason, MOST_ERROR_CHARACTERS)
    _held(mail).update(state=state, error=told, leased_until=None, queued_at=None)


def _held(mail: Mail) -> QuerySet[Mail]:
    """The row, if nobody has claimed it since: `attempts` rises with each claim."""
    return _waiting().filter(pk=mail.pk, attempts=mail.attempts)


def _waiting() -> QuerySet[Mail]:
    return Mail.objects.filter(state=Mail.WAITING)


def _unleased(now: datetime) -> Q:
    return Q(leased_until=None) | Q(leased_until__lt=now)


def _free(now: datetime) -> QuerySet[Mail]:
    return _waiting().filter(_unleased(now), attempts__lt=MAX_ATTEMPTS, due_at__lte=now)


def _pause(attempts: int) -> timedelta:
    longest = min(FIRST_PAUSE * 2.0 ** (attempts - 1), LONGEST_PAUSE)
    return longest * random.random()  # noqa: S311 - spreads load, keeps no secret

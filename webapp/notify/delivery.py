"""Handing mails to the mail server, and telling a refusal for good from one for now."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from smtplib import SMTPDataError, SMTPException, SMTPRecipientsRefused, SMTPResponseException
from typing import Any

from django.core.mail import get_connection

from webapp.accounts.models import User
from webapp.background.claims import Claim
from webapp.notify import queue, subscriptions
from webapp.notify.kinds import KINDS
from webapp.notify.letters import Letter, NotYetError
from webapp.notify.message import compose, compose_test
from webapp.notify.models import Mail

MOST_SECONDS = 30
"""A slow mail server holds a worker no longer; the next batch goes on."""

logger = logging.getLogger(__name__)


def send(mail_ids: Iterable[int]) -> None:
    """Send what is still due of these, over one connection.

    It's opened before a mail is claimed, so that little can happen between claim and answer.
    """
    connection = get_connection()
    try:
        connection.open()
    except Exception as error:
        _postpone(mail_ids, _told(error))
        return
    try:
        _send_over(connection, mail_ids)
    finally:
        _close(connection)


def send_test(user: User) -> str:
    """Send a mail to this person now. Returns what went wrong; empty: it was accepted."""
    connection = get_connection()
    try:
        connection.open()
        connection.send_messages([compose_test(user)])
    except Exception as error:
        return _told(error)
    finally:
        _close(connection)
    return ""


def _send_over(connection: Any, mail_ids: Iterable[int]) -> None:
    """Until all are sent, the time is over, or the connection is."""
    until = time.monotonic() + MOST_SECONDS
    for mail_id in mail_ids:
        if time.monotonic() > until or not _send_one(connection, mail_id):
            return


def _send_one(connection: Any, mail_id: int) -> bool:
    """False: nothing more can be sent over this connection."""
    held = queue.claim(mail_id)
    if held is None:
        return True
    try:
        letter = _letter(held)
        if letter is None:
            return True
        connection.send_messages([compose(held.row, KINDS[held.row.kind], letter)])
    except NotYetError as reason:
        queue.retry_later(held, str(reason))
        return True
    except Exception as error:
        return _failed(held, error)
    queue.sent(held)
    return True


def _letter(held: Claim[Mail]) -> Letter | None:
    mail = held.row
    if not subscriptions.still_wants(mail):
        queue.withdraw(held, "The recipient unsubscribed before the mail was sent.")
        return None
    letter = KINDS[mail.kind].letter(mail)
    if letter is None:
        queue.withdraw(held, "The subject no longer applied when the mail was due.")
    return letter


def _failed(held: Claim[Mail], error: Exception) -> bool:
    """Keep what went wrong; whether the connection can still be used."""
    if _is_for_good(error):
        queue.fail(held, _told(error))
        return True
    is_ours = not isinstance(error, OSError)
    extra = {"mail": str(held.row.uuid), "error": _told(error)}
    logger.warning("mail not sent", extra=extra, exc_info=is_ours)
    queue.retry_later(held, _told(error))
    return is_ours or isinstance(error, SMTPRecipientsRefused | SMTPDataError)


def _is_for_good(error: Exception) -> bool:
    """Whether asking again is of no use: 5xx for this recipient or text, or it can't be written.

    A refused sender or password is the operator's to mend, and then the mail goes out by itself.
    """
    if isinstance(error, SMTPRecipientsRefused):
        return all(500 <= code < 600 for code, _ in error.recipients.values())
    if isinstance(error, SMTPDataError):
        return 500 <= error.smtp_code < 600
    return isinstance(error, ValueError)


def _told(error: Exception) -> str:
    """What the server said, else what happened."""
    if isinstance(error, SMTPRecipientsRefused):
        return "; ".join(_answer(*answer) for answer in error.recipients.values())
    if isinstance(error, SMTPResponseException):
        return _answer(error.smtp_code, error.smtp_error)
    # smtplib tells of a time-out as of a lost connection.
    if isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError):
        return "The mail server did not answer in time."
    if isinstance(error, SMTPException):
        return f"The mail server: {error}"
    if isinstance(error, OSError):
        return f"The mail server can't be reached: {error}"
    return f"{type(error).__name__}: {error}"


def _answer(code: int, text: bytes | str) -> str:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return f"The mail server said {code} {words}"


def _postpone(mail_ids: Iterable[int], error: str) -> None:
    logger.warning("no connection to the mail server", extra={"error": error})
    for mail_id in mail_ids:
        held = queue.claim(mail_id)
        if held is not None:
            queue.retry_later(held, error)


def _close(connection: Any) -> None:
    """What was accepted stays accepted, however the farewell goes."""
    try:
        connection.close()
    except (OSError, SMTPException) as error:
        logger.info("mail server left without a word", extra={"error": str(error)})

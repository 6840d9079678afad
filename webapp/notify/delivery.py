"""Sends messages over their channels, and records the result of each."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from webapp.background.claims import WorkClaim
from webapp.notify import queue, recipients, subscriptions
from webapp.notify.channels import channels
from webapp.notify.channels.channel import Channel, ChannelConnection, DeliveryFailure
from webapp.notify.kinds import KINDS
from webapp.notify.message import Message, message, test_message
from webapp.notify.models import Mail
from webapp.notify.notification_kind import MailContent, NotYetError

MOST_SECONDS = 30
"""The time after which a slow server releases the worker. The next batch continues."""

logger = logging.getLogger(__name__)


def send(mail_ids: Sequence[int], **_: object) -> bool:
    """Send those of these messages that are still due, over one connection per channel. Returns
    whether there were any."""
    for channel_id, ids in queue.by_channel(mail_ids).items():
        channel = channels().get(channel_id)
        if channel is None:
            _refuse(ids, f"This service has no channel {channel_id!r}.")
        else:
            _send_by(channel, ids)
    return bool(mail_ids)


def send_test(channel: Channel, target: str) -> str:
    """Send a message to a target now. Returns what went wrong; empty if it was accepted."""
    try:
        with channel.connect() as connection:
            connection.send(test_message(channel.title, target))
    except Exception as error:
        return channel.failure(error).text
    return ""


def _send_by(channel: Channel, mail_ids: list[int]) -> None:
    """Send messages over one channel. It connects before claiming a message, so that little can go
    wrong between claim and answer.
    """
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(channel.connect())
        except Exception as error:
            _postpone(channel, mail_ids, channel.failure(error).text)
            return
        _send_over(channel, connection, mail_ids)


def _send_over(channel: Channel, connection: ChannelConnection, mail_ids: Iterable[int]) -> None:
    """Send until all are sent, the time is over, or the connection is closed."""
    until = time.monotonic() + MOST_SECONDS
    for mail_id in mail_ids:
        if time.monotonic() > until or not _send_one(channel, connection, mail_id):
            return


def _send_one(channel: Channel, connection: ChannelConnection, mail_id: int) -> bool:
    """Send one message. Returns False if the connection can't be used again."""
    held = queue.claim(mail_id)
    if held is None:
        return True
    try:
        due = _message(channel, held)
        if due is None:
            return True
        connection.send(due)
    except NotYetError as reason:
        queue.retry_later(held, str(reason))
        return True
    except Exception as error:
        return _failed(held, channel.failure(error), error)
    queue.mark_sent(held)
    return True


def _message(channel: Channel, held: WorkClaim[Mail]) -> Message | None:
    """Return the message, or None if it was withdrawn."""
    mail = held.row
    content = _content(held)
    if content is None:
        return None
    target = recipients.target(channel, mail.user, mail.workspace)
    if target is None:
        queue.withdraw(held, f"{channel.title} was switched off before it was sent.")
        return None
    return message(mail, KINDS[mail.kind], content, target)


def _content(held: WorkClaim[Mail]) -> MailContent | None:
    mail = held.row
    if not subscriptions.still_wants(mail):
        queue.withdraw(held, "The recipient unsubscribed before the mail was sent.")
        return None
    content = KINDS[mail.kind].content(mail)
    if content is None:
        queue.withdraw(held, "The subject no longer applied when the mail was due.")
    return content


def _failed(held: WorkClaim[Mail], failure: DeliveryFailure, error: Exception) -> bool:
    """Record what went wrong. Returns whether the connection can still be used."""
    if failure.is_final:
        queue.fail(held, failure.text)
    else:
        extra = {"mail": str(held.row.uuid), "error": failure.text}
        is_ours = not isinstance(error, OSError)
        logger.warning("%s not sent", held.row.channel, extra=extra, exc_info=is_ours)
        queue.retry_later(held, failure.text)
    return not failure.ends_connection


def _postpone(channel: Channel, mail_ids: Iterable[int], error: str) -> None:
    logger.warning("no connection for %s", channel.id, extra={"error": error})
    for mail_id in mail_ids:
        held = queue.claim(mail_id)
        if held is not None:
            queue.retry_later(held, error)


def _refuse(mail_ids: Iterable[int], error: str) -> None:
    for mail_id in mail_ids:
        held = queue.claim(mail_id)
        if held is not None:
            queue.fail(held, error)

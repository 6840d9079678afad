"""The interface of a kind of mail: who should get one, and its content."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from webapp.notify.models import Mail


@dataclass(frozen=True)
class DueNotification:
    """A person who should be notified about a subject."""

    user_id: int
    workspace_id: int
    subject_key: str
    about: str


@dataclass(frozen=True)
class MailContent:
    """The content of a mail. `template` is rendered with `context`, as `.txt` and as `.html`."""

    subject: str
    template: str
    context: dict[str, Any]


class NotYetError(Exception):
    """Raised when the mail has to wait, because its subject is being analysed again. The message
    says why.
    """


@dataclass(frozen=True)
class NotificationKind:
    """One kind of mail, as the settings list it."""

    id: str
    title: str
    description: str
    due: Callable[[datetime], Iterable[DueNotification]]
    """Everybody who should have one by now, including those who already do."""
    content: Callable[[Mail], MailContent | None]
    """The mail's content; None if it no longer applies and isn't sent. Raises NotYetError."""

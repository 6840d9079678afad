"""What a kind of mail has to say: who should get one, and what stands in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from webapp.notify.models import Mail


@dataclass(frozen=True)
class Due:
    """A person who should be told of a subject."""

    user_id: int
    workspace_id: int
    subject_key: str
    about: str


@dataclass(frozen=True)
class Letter:
    """What stands in a mail. `template` is rendered with `context`, as `.txt` and as `.html`."""

    subject: str
    template: str
    context: dict[str, Any]


class NotYetError(Exception):
    """What the mail is about is being looked at again: it waits. The message says for what."""


@dataclass(frozen=True)
class Kind:
    """One kind of mail, as the settings name it."""

    id: str
    title: str
    description: str
    due: Callable[[datetime], Iterable[Due]]
    """Everybody who should have one by now; whoever has one is passed over."""
    letter: Callable[[Mail], Letter | None]
    """None: it no longer holds, and isn't sent. Raises NotYetError."""

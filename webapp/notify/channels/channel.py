"""What a channel does: it takes a message to a person's target, and explains its failures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from django.core.checks import CheckMessage
from django.forms import Form

from webapp.accounts.models import User
from webapp.notify.message import Message

Settings = Mapping[str, Any]
"""What a person entered into a channel's form; empty for a channel without a form."""


@dataclass(frozen=True)
class Setup:
    """Whether this service can send over a channel, and the sentence about it for people."""

    is_ready: bool
    text: str


@dataclass(frozen=True)
class Failure:
    """Why a message was not sent."""

    text: str
    is_final: bool = False
    """Another attempt is of no use. All other failures are retried after a pause."""
    ends_connection: bool = False
    """No other message can be sent over this connection."""


class Connection(Protocol):
    """What takes messages, until it is closed."""

    def send(self, message: Message) -> None:
        """Render and send a message. Raises what `Channel.failure` explains."""


class Channel(ABC):
    """One way of reaching people. `webapp/notify/channels/NAME.py` ends with `CHANNEL = ...`."""

    id: str
    """At most 32 characters. It is stored with each message."""
    title: str
    most_seconds: float
    """How long one message may take. After this time another worker may send it again."""
    form: type[Form] | None = None
    """What a person enters to be reached; its cleaned data must be JSON. None: nothing is needed,
    and everybody is reached."""

    @abstractmethod
    def setup(self) -> Setup:
        """Whether the operator has configured the channel."""

    def checks(self) -> list[CheckMessage]:
        """System checks: what is configured, but wrong."""
        return []

    @abstractmethod
    def target(self, user: User, entered: Settings) -> str:
        """The address that reaches this person."""

    @abstractmethod
    def connect(self) -> AbstractContextManager[Connection]:
        """A connection for several messages. Entering it raises what `failure` explains; leaving
        it raises nothing."""

    @abstractmethod
    def failure(self, error: Exception) -> Failure:
        """What an error of `connect` or `send` means."""

"""The channel interface: sends messages to a person's target and explains failures."""

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
"""The values that a person entered into a channel's form; empty for a channel without a form."""


@dataclass(frozen=True)
class Setup:
    """State of a channel in this service, and a sentence that describes it."""

    is_ready: bool
    text: str


@dataclass(frozen=True)
class DeliveryFailure:
    """Reason why a message was not sent."""

    text: str
    is_final: bool = False
    """True if retrying won't help. All other failures are retried after a pause."""
    ends_connection: bool = False
    """True if no other message can be sent over this connection."""


class ChannelConnection(Protocol):
    """An open connection that sends messages."""

    def send(self, message: Message) -> None:
        """Render and send a message. Raises what `Channel.failure` explains."""


class Channel(ABC):
    """A way to notify people. `webapp/notify/channels/NAME.py` ends with `CHANNEL = ...`."""

    id: str
    """The channel's id, at most 32 characters. It is stored with each message."""
    title: str
    most_seconds: float
    """Time limit for one message. After it, another worker may send the message again."""
    form: type[Form] | None = None
    """The form for a person's settings; its cleaned data must be JSON. None if no settings are
    needed, and the channel reaches everybody."""

    @abstractmethod
    def setup(self) -> Setup:
        """Return whether the operator has configured the channel."""

    def checks(self) -> list[CheckMessage]:
        """Return the system checks: errors in the configuration."""
        return []

    @abstractmethod
    def target(self, user: User, entered: Settings) -> str:
        """Return the person's address on this channel."""

    @abstractmethod
    def connect(self) -> AbstractContextManager[ChannelConnection]:
        """Return a connection for several messages. Opening it raises errors that `failure`
        explains; closing it raises nothing.
        """

    @abstractmethod
    def failure(self, error: Exception) -> DeliveryFailure:
        """Return what an error of `connect` or `send` means."""

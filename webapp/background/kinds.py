"""The kinds of background work. Each app registers its own when Django is ready."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar

from django.db.models import QuerySet

from webapp.accounts.models import Workspace
from webapp.background.models import Claimable

Row = TypeVar("Row", bound=Claimable)


@dataclass(frozen=True)
class Limits:
    """How long and how often a kind of work is tried."""

    lease: timedelta
    """How long a worker may be silent before somebody else may take its work."""
    hand_out_again_after: timedelta
    """How long an id may lie with the broker before it is sent once more."""
    max_attempts: int
    first_pause: timedelta
    """The longest pause after the first failure; it doubles with each, up to `longest_pause`."""
    longest_pause: timedelta
    max_kills: int = 10
    batch: int = 1
    """How many rows one message names."""
    most_queued: int = 500
    """How many rows may lie with the broker at once."""

    def pause(self, attempts: int) -> timedelta:
        """How long to wait after so many failures: full jitter, so that not all come back at once
        (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/)."""
        doublings = min(attempts - 1, 20)
        longest = min(self.first_pause * 2.0**doublings, self.longest_pause)
        return longest * random.random()  # noqa: S311 - spreads load, keeps no secret


@dataclass(frozen=True)
class Kind(Generic[Row]):
    """One kind of background work: its rows, the task that does it, and how people read of it."""

    id: str
    title: str
    model: type[Row]
    task: str
    """The Celery task. It gets what `key` holds: of one row, or a list if `limits.batch` > 1."""
    key: str
    """The unique field that messages name a row by."""
    limits: Limits
    workspace: str | None
    """The path from a row to its workspace; None: the work is for all workspaces."""
    subject: Callable[[Row], str]
    """What the work is about, in words."""
    address: Callable[[Row], str] = lambda _: ""
    """The subject's page; empty: it has none."""
    related: tuple[str, ...] = ()
    """What `subject` and `address` follow."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """Which rows people see: not those of what was deleted."""
    given_up: Mapping[str, Any] = field(default_factory=dict)
    """What else a row says once nobody tries again."""
    tried_again: Mapping[str, Any] = field(default_factory=dict)
    """What else a row says when a person has it tried again."""
    may_be_tried_again: bool = True

    @property
    def rows(self) -> QuerySet[Row]:
        return self.model._default_manager.all()

    def rows_of(self, workspace: Workspace) -> QuerySet[Row]:
        """Those that the members of a workspace may know of."""
        own = {} if self.workspace is None else {self.workspace: workspace}
        return self.rows.filter(**own, **self.shown)


_kinds: dict[str, Kind[Any]] = {}


def register(kind: Kind[Any]) -> None:
    """Call in `AppConfig.ready()`."""
    _kinds[kind.id] = kind


def all_kinds() -> list[Kind[Any]]:
    """In the order of their titles."""
    return sorted(_kinds.values(), key=lambda kind: kind.title)


def kind_called(kind_id: str) -> Kind[Any] | None:
    return _kinds.get(kind_id)

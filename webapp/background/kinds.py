"""The kinds of background work. Each app registers its own when Django is ready."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar, cast

from django.db.models import Field, Q, QuerySet
from django.utils.module_loading import import_string

from webapp.accounts.models import Workspace
from webapp.background.models import Claimable

Row = TypeVar("Row", bound=Claimable)
CarryOut = Callable[..., bool]
"""A function that claims the row with a key (or each of a list of keys) if it matches the keywords,
and works on it. It returns False if nothing was claimed, and records its own failures."""

HIDDEN: Mapping[str, Any] = {"pk__in": ()}
"""`Kind.shown` of a kind that isn't for owners: no page lists its rows."""


@dataclass(frozen=True)
class WorkLimits:
    """Time limits and retries of a kind of work."""

    lease: timedelta
    """The lease: how long a worker may be silent before another may take its work."""
    max_attempts: int
    first_pause: timedelta
    """The longest pause after the first failure. It doubles with each failure, up to
    `longest_pause`."""
    longest_pause: timedelta
    max_kills: int = 10
    longest: timedelta = timedelta(minutes=9)
    """A worker ends a piece of work that takes longer."""
    batch: int = 1
    """Rows that are worked on together."""
    at_once: int | None = None
    """The most workers at this kind at once, each with any number of rows under one lease; None for
    any number."""
    is_shared: bool = False
    """True if a row may keep a worker busy for long: then no workspace gets all workers while
    others wait."""

    def pause(self, attempts: int) -> timedelta:
        """Return the pause after this many failures, with full jitter so that retries don't
        coincide (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/).
        """
        doublings = min(attempts - 1, 20)
        longest = min(self.first_pause * 2.0**doublings, self.longest_pause)
        return longest * random.random()  # noqa: S311 - spreads load, keeps no secret


@dataclass(frozen=True)
class WorkKind(Generic[Row]):
    """One kind of background work: its rows, how to work on them, and how pages describe it."""

    id: str
    title: str
    model: type[Row]
    work: str
    """The dotted path of its `CarryOut`, imported by the first worker that needs it. Its argument
    is the `key` of a row, or a list of keys if `limits.batch` > 1."""
    key: str
    """The unique field by which workers name a row."""
    limits: WorkLimits
    workspace: str | None
    """The path from a row to its workspace; None if the work is for all workspaces."""
    subject: Callable[[Row], str]
    """The subject of the work, as text."""
    address: Callable[[Row], str] = lambda _: ""
    """URL of the subject's page; empty if there is none."""
    related: tuple[str, ...] = ()
    """Relations that the work, `subject` and `address` read, for `select_related`."""
    urgent: Q | None = None
    """The rows that come before the others of their workspace."""
    beside_urgent: int = 1
    """The number of overdue rows that take as long as an urgent one: they share the time by
    halves."""
    lag_title: str = ""
    """The name of the kind's lag on pages; empty if the lag isn't shown."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """The condition for rows that pages show, without those of deleted things."""
    given_up: Mapping[str, Any] = field(default_factory=dict)
    """Further columns to set when a row is given up."""
    tried_again: Mapping[str, Any] = field(default_factory=dict)
    """Further columns to set when a person retries a row."""
    may_be_tried_again: bool = True
    past: tuple[str, ...] = ("began_at", "finished_at")
    """The columns that say when something happened."""

    @property
    def rows(self) -> QuerySet[Row]:
        return self.model._default_manager.all()

    def field(self, name: str) -> Field[Any, Any]:
        """Return a column of the kind's rows."""
        meta = self.model._meta
        return meta.pk if name == "pk" else cast("Field[Any, Any]", meta.get_field(name))

    @property
    def carry_out(self) -> CarryOut:
        return cast(CarryOut, import_string(self.work))

    def rows_of(self, workspace: Workspace) -> QuerySet[Row]:
        """Return the rows that members of a workspace may see."""
        own = {} if self.workspace is None else {self.workspace: workspace}
        return self.rows.filter(**own, **self.shown)


_kinds: dict[str, WorkKind[Any]] = {}


def register(kind: WorkKind[Any]) -> None:
    """Register a kind. Call this in `AppConfig.ready()`."""
    _kinds[kind.id] = kind


def all_kinds() -> list[WorkKind[Any]]:
    """Return all kinds, by title."""
    return sorted(_kinds.values(), key=lambda kind: kind.title)


def kind_called(kind_id: str) -> WorkKind[Any] | None:
    return _kinds.get(kind_id)

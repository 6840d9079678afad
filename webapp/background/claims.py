"""Claims, finishes and releases rows of background work.

A claim is one UPDATE that must change exactly one row. It gives a lease. A worker that dies loses
the row when its lease expires. No message is needed: any worker may claim a due row. On PostgreSQL
a row that an upload or another worker has locked is skipped, not waited for. Nothing here locks
more than the one row (see `webapp.runs.locks` for the order).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic

from django.db import connection, transaction
from django.db.models import Case, DateTimeField, F, QuerySet, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Least
from django.utils import timezone

from webapp.background import conditions, fairness, lag
from webapp.background.kinds import Row, WorkKind
from webapp.database import planned, prepared
from webapp.database.listed import execute_with_rows
from webapp.database.prepared import Models, PreparedStatement, Slot

MOST_ERROR_CHARACTERS = 2000
_FRESH = {"attempts": 0, "kills": 0, "given_up_at": None}
_UNHELD = {"lease": None, "leased_until": None}
_WANT_MANY = """
UPDATE {table} SET wanted = wanted + new.count,
    waiting_since = CASE
        WHEN waiting_since < new.now OR waiting_since < due_at THEN waiting_since
        WHEN due_at > new.now THEN due_at ELSE new.now
    END
FROM new WHERE {table}.{key} = new.key
"""
_statements: dict[tuple[object, ...], PreparedStatement] = {}
"""The statements that claim or set aside, by database, kind and the names of conditions or
columns."""

_readings: dict[str, Models[Any]] = {}
"""The statements that read a claimed row, by kind."""


@dataclass(frozen=True)
class WorkClaim(Generic[Row]):
    """A worker's right to do a piece of work, until the lease ends."""

    kind: WorkKind[Row]
    row: Row
    """The row at the time of the claim."""
    lease: uuid.UUID
    began_at: datetime

    @property
    def pk(self) -> int:
        return int(self.row.pk)


def mark_due(
    rows: QuerySet[Row],
    due_at: datetime | None = None,
    is_fresh: bool = True,
    is_awaited: bool = True,
    **columns: object,
) -> int:
    """Mark these rows as due, because something arrived for them. Returns the number of rows.

    Args:
        due_at: when it is due; default: now.
        is_fresh: what failed before may succeed now, so the attempts are counted from 0 again.
        is_awaited: count how long it waits (`lag`).
    """
    due = Value(due_at or timezone.now())
    changes: dict[str, Any] = {"wanted": F("wanted") + 1, "due_at": due}
    if is_fresh:
        changes |= _FRESH
    if is_awaited:
        changes["waiting_since"] = Least(Coalesce("waiting_since", due), due)
    return rows.update(**changes | columns)


def want_many(kind: WorkKind[Any], counts: Mapping[Any, int]) -> None:
    """Count what arrived for rows whose due time was decided before, and stays: `want` for many, in
    one statement.

    Args:
        counts: how many arrived, by the rows' `key`.
    """
    if not counts:
        return
    now = timezone.now()
    rows = [(key, count, now) for key, count in counts.items()]
    statement = _WANT_MANY.format(table=kind.model._meta.db_table, key=kind.field(kind.key).column)
    execute_with_rows(("key", "count", "now"), rows, statement)


def claim(kind: WorkKind[Row], key: object, **which: object) -> WorkClaim[Row] | None:
    """Claim the row with this `key`, due or not, if it matches `which`.

    Returns:
        None if there is nothing to do, another worker has it, or other workspaces come first.
    """
    return claim_under(uuid.uuid4(), kind, key, which)


def claim_under(
    lease: uuid.UUID, kind: WorkKind[Row], key: object, which: Mapping[str, object]
) -> WorkClaim[Row] | None:
    """Claim a row as `claim` does, under this lease: a worker may hold several rows under one."""
    with transaction.atomic():
        planned.plan_once()
        found = (connection.vendor, kind.id, kind.limits, *sorted(which))
        if found not in _statements:
            now, slot = Slot("now", DateTimeField()), Slot("key", kind.field(kind.key))
            own, counted = Slot("own_lease", kind.field("lease")), Slot("counted", DateTimeField())
            room = fairness.has_room(kind, slot, now, own, counted)
            rows = conditions.claimable_rows(kind, now).filter(room)
            slots = {name: Slot(name, kind.field(name.split("__")[0])) for name in which}
            _statements[found] = _taking(kind, rows.filter(**slots))
        return _take(kind, _statements[found], key, which, lease)


def claim_by_force(kind: WorkKind[Row], key: object) -> WorkClaim[Row] | None:
    """Claim the row with this `key` even if it is leased: a person knows that nobody works on it.

    Returns:
        None if there is nothing to do.
    """
    with transaction.atomic():
        taking = _taking(kind, kind.rows.filter(conditions.is_open()))
        return _take(kind, taking, key, {}, uuid.uuid4())


def _taking(kind: WorkKind[Any], rows: QuerySet[Any]) -> PreparedStatement:
    """Return the statement that leases one of these rows."""
    free = rows.filter(**{kind.key: Slot("key", kind.field(kind.key))})
    slots = {name: Slot(name, kind.field(name)) for name in ("lease", "leased_until", "began_at")}
    # A worker that held it and neither finished nor failed has died.
    kills = F("kills") + Case(When(lease=None, then=0), default=1)
    own = kind.rows.filter(pk__in=free.select_for_update(skip_locked=True).values("pk"))
    return prepared.update(own, kills=kills, **slots)


def _take(
    kind: WorkKind[Row],
    taking: PreparedStatement,
    key: object,
    which: Mapping[str, object],
    lease: uuid.UUID,
) -> WorkClaim[Row] | None:
    now = timezone.now()
    until = now + kind.limits.lease
    own = {"key": key, "lease": lease, "leased_until": until, "began_at": now}
    counted = fairness.counted_from(kind, now)
    taken, _ = taking.execute(now=now, own_lease=lease, counted=counted, **own, **which)
    if taken != 1:
        return None
    (row,) = _reading(kind)(key=key)
    return WorkClaim(kind, row, lease, now)


def _reading(kind: WorkKind[Row]) -> Models[Row]:
    if kind.id not in _readings:
        own = {kind.key: Slot("key", kind.field(kind.key))}
        _readings[kind.id] = Models(lambda: kind.rows.select_related(*kind.related).filter(**own))
    return _readings[kind.id]


def renew(held: WorkClaim[Row], **columns: object) -> bool:
    """Extend the lease and write `columns`. Returns False if the lease was lost."""
    until = timezone.now() + held.kind.limits.lease
    return _own(held).update(leased_until=until, **columns) == 1


def finish_work(
    held: WorkClaim[Row],
    save: Callable[[], None] | None = None,
    due_at: datetime | None = None,
    **columns: object,
) -> bool:
    """Mark the row as done and save the outcome, in one transaction, if the lease is still ours.

    Returns False if the lease was lost.

    Args:
        due_at: when it is due if more has arrived since the claim; default: as it is.
    """
    now = timezone.now()
    done = {
        "done": held.row.wanted,
        "error": "",
        "finished_at": now,
        "seconds": (now - held.began_at).total_seconds(),
    }
    if due_at is not None:
        done["due_at"] = due_at
    with transaction.atomic():
        kept = _leave(held, _waits_from(held, due_at), done | columns)
        if kept and save is not None:
            save()
    if kept:
        _count_lag(held)
    return kept == 1


def release(held: WorkClaim[Row], due_at: datetime | Combinable, **columns: object) -> bool:
    """Release the row undone, without counting a failure. It is due again at `due_at`."""
    return _own(held).update(due_at=due_at, **_FRESH | _UNHELD | columns) == 1


def postpone(held: WorkClaim[Row], due_at: datetime, **columns: object) -> bool:
    """Release the row, because what has arrived needs no more for now. It is due again at
    `due_at`."""
    kept = _leave(held, _waits_from(held, due_at), {"due_at": due_at, **columns})
    if kept:
        _count_lag(held)
    return kept == 1


def _leave(held: WorkClaim[Row], waits_from: datetime, columns: Mapping[str, object]) -> int:
    """Release the row and write these columns. Only what arrived since the claim still waits, from
    then on. Returns 0 if the lease was lost."""
    found = (connection.vendor, held.kind.id, "leave", *sorted(columns))
    if found not in _statements:
        _statements[found] = _leaving(held.kind, columns)
    own = {"pk": held.row.pk, "lease": held.lease}
    seen = {"wanted": held.row.wanted, "waiting_since": waits_from}
    kept, _ = _statements[found].execute(**own, **seen, **columns)
    return kept


def _leaving(kind: WorkKind[Any], columns: Iterable[str]) -> PreparedStatement:
    """Return the statement that releases a row and writes these columns."""
    names = ("pk", "lease", "wanted", "waiting_since")
    slot = {name: Slot(name, kind.field(name)) for name in names}
    own = kind.rows.filter(pk=slot["pk"], lease=slot["lease"])
    written = {name: Slot(name, kind.field(name)) for name in columns}
    seen = _seen(slot["wanted"], slot["waiting_since"])
    return prepared.update(own, **_FRESH | _UNHELD | seen | written)


def fail(held: WorkClaim[Row], error: BaseException | str) -> None:
    """Record the error and retry after a pause, unless this was the last attempt."""
    limits = held.kind.limits
    failed: dict[str, Any] = {"attempts": F("attempts") + 1, "error": error_text(error), **_UNHELD}
    last = _own(held).filter(attempts__gte=limits.max_attempts - 1)
    if not last.update(given_up_at=timezone.now(), **failed | dict(held.kind.given_up)):
        pause = limits.pause(held.row.attempts + 1)
        _own(held).update(due_at=timezone.now() + pause, **failed)


def mark_failed(held: WorkClaim[Row], error: BaseException | str) -> None:
    """Record the error and give up, because a retry would fail as well."""
    failed: dict[str, Any] = {"attempts": F("attempts") + 1, "error": error_text(error), **_UNHELD}
    _own(held).update(given_up_at=timezone.now(), **failed | dict(held.kind.given_up))


def retry_failed(kind: WorkKind[Row], rows: QuerySet[Row]) -> int:
    """Retry rows that were given up, because a person asked for it. Returns the number of rows."""
    columns = {"due_at": timezone.now(), "error": "", **_FRESH, **_UNHELD, **kind.tried_again}
    return rows.filter(conditions.has_news(), given_up_at__isnull=False).update(**columns)


def error_text(error: BaseException | str) -> str:
    """Return the error's text, as it is stored."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    # PostgreSQL refuses NUL in text, and an error may quote anything.
    return text.replace("\0", "")[:MOST_ERROR_CHARACTERS]


def _seen(wanted: Combinable, since: Combinable) -> dict[str, Any]:
    """Return the columns that a worker's look at the row sets: only what arrived since the claim
    still waits.
    """
    return {"waiting_since": Case(When(wanted__gt=wanted, then=since), default=None)}


def _waits_from(held: WorkClaim[Row], due_at: datetime | None) -> datetime:
    """Return since when what arrived after the claim waits, at most: it waits once the row is
    due.
    """
    return max(held.began_at, due_at or held.began_at)


def _count_lag(held: WorkClaim[Row]) -> None:
    if held.row.waiting_since is not None:
        waited = max(timezone.now() - held.row.waiting_since, timedelta())
        transaction.on_commit(lambda: lag.count(held.kind, waited))


def _own(held: WorkClaim[Row]) -> QuerySet[Row]:
    return held.kind.rows.filter(pk=held.row.pk, lease=held.lease)

"""Statements that Django compiles once: for hot paths, where compiling takes longer than executing.

Write the query with `Slot`s in place of the values that differ from call to call.

Django has no public way to keep a compiled statement. What this module knows of its compilers holds
for the versions in `COMPILED`; with any other one, each call is an ordinary query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, Protocol, TypeVar, cast

import django
from django.db import connection
from django.db.models import Expression, Field, Model, QuerySet, query
from django.db.models.sql import UpdateQuery

from webapp.database.planned import widen_integers

Row = TypeVar("Row", bound=Model)

COMPILED = {(5, 2)}
"""The versions of Django whose statements are compiled once."""

_values: ContextVar[Mapping[str, object] | None] = ContextVar("values", default=None)


@contextmanager
def _filled(values: Mapping[str, object]) -> Iterator[None]:
    """Let slots stand for these values."""
    token = _values.set(values)
    try:
        yield
    finally:
        _values.reset(token)


def is_compiled() -> bool:
    """Return whether statements are compiled once with this version of Django."""
    return django.VERSION[:2] in COMPILED


class Slot(Expression):
    """A value that is given when the statement is executed."""

    def __init__(self, name: str, field: Field[Any, Any]) -> None:
        super().__init__(output_field=field)
        self.name = name

    def as_sql(self, *_: object) -> tuple[str, Any]:
        """Return the slot itself in place of its value, or the value if it is there."""
        values = _values.get()
        return "%s", [self if values is None else self.adapt(values[self.name])]

    def adapt(self, value: object) -> Any:
        """Convert a value to the database's form."""
        return None if value is None else self.output_field.get_db_prep_value(value, connection)


class PreparedStatement(Protocol):
    """One statement, to be executed many times."""

    def execute(self, **values: object) -> tuple[int, list[tuple[Any, ...]]]:
        """Execute the statement. Return the number of changed rows, and the returned rows."""


class _Compiled:
    """Compiled statement of the current database."""

    def __init__(self, statement: tuple[str, tuple[Any, ...]]) -> None:
        self._sql, self._params = statement

    def execute(self, **values: object) -> tuple[int, list[tuple[Any, ...]]]:
        params = [
            param.adapt(values[param.name]) if isinstance(param, Slot) else param
            for param in self._params
        ]
        with connection.cursor() as cursor:
            cursor.execute(self._sql, widen_integers(params))
            return cursor.rowcount, cursor.fetchall() if cursor.description else []


class _Selection:
    """Query that Django compiles each time."""

    def __init__(self, rows: QuerySet[Any, Any]) -> None:
        self._rows = rows

    def execute(self, **values: object) -> tuple[int, list[tuple[Any, ...]]]:
        with _filled(values):
            found = list(self._rows.all())
        return len(found), found


class _Update:
    """Change that Django compiles each time."""

    def __init__(self, rows: QuerySet[Any], columns: Mapping[str, object]) -> None:
        self._rows, self._columns = rows, columns

    def execute(self, **values: object) -> tuple[int, list[tuple[Any, ...]]]:
        with _filled(values):
            return self._rows.update(**self._columns), []


class Values:
    """Reads rows of values, as `values_list` does. A function that gives the query, with `Slot`s,
    becomes one that takes their values: the query is compiled with its first call.
    """

    def __init__(self, query: Callable[[], QuerySet[Any, Any]]) -> None:
        self._query = query
        self._compiled: dict[str, _Reading] = {}
        """The compiled statements, by database."""

    def __call__(self, **values: object) -> list[Any]:
        if not is_compiled():
            with _filled(values):
                return list(self._query().all())
        if connection.vendor not in self._compiled:
            self._compiled[connection.vendor] = self._reading()
        return self._compiled[connection.vendor].rows(values)

    def _reading(self) -> _Reading:
        return _Reading(self._query())


class Models(Values, Generic[Row]):
    """Reads rows as models, with what `select_related` names."""

    def __init__(self, query: Callable[[], QuerySet[Row]]) -> None:
        super().__init__(query)

    def __call__(self, **values: object) -> list[Row]:
        return super().__call__(**values)

    def _reading(self) -> _Reading:
        return _ReadingModels(self._query())


class _Reading:
    """Compiled statement, and how its columns are converted."""

    def __init__(self, rows: QuerySet[Any, Any]) -> None:
        self._compiler = rows.query.get_compiler(connection=connection)
        self._statement = _Compiled(self._compiler.as_sql())
        columns = [column for column, *_ in self._compiler.select]
        self._converters = self._compiler.get_converters(columns)

    def rows(self, values: dict[str, object]) -> list[Any]:
        _, found = self._statement.execute(**values)
        return list(self._compiler.apply_converters(found, self._converters))


class _ReadingModels(_Reading):
    """Compiled statement, and how a model is made of a row: as `ModelIterable` does it."""

    def __init__(self, rows: QuerySet[Any]) -> None:
        super().__init__(rows)
        select, made_of = self._compiler.select, self._compiler.klass_info
        self._model, self._db = made_of["model"], rows.db
        self._own = slice(made_of["select_fields"][0], made_of["select_fields"][-1] + 1)
        self._names = [column.target.attname for column, *_ in select[self._own]]
        # mypy's stubs are those of a later Django.
        self._related = query.get_related_populators(made_of, select, rows.db)  # type: ignore[call-arg]

    def rows(self, values: dict[str, object]) -> list[Any]:
        return [self._made(row) for row in super().rows(values)]

    def _made(self, row: list[Any]) -> Any:
        made = self._model.from_db(self._db, self._names, row[self._own])
        for each in self._related:
            each.populate(row, made)
        return made


def select(rows: QuerySet[Any, Any]) -> PreparedStatement:
    """Return the statement that reads these rows, as tuples. Times and the like may be in the
    database's form.
    """
    if not is_compiled():
        return _Selection(rows)
    return _Compiled(rows.query.get_compiler(connection=connection).as_sql())


def update(rows: QuerySet[Any], **columns: object) -> PreparedStatement:
    """Return the statement that writes these columns of the rows."""
    if not is_compiled():
        return _Update(rows, columns)
    changes = cast(UpdateQuery, rows.query.chain(UpdateQuery))
    changes.add_update_values(columns)
    return _Compiled(changes.get_compiler(connection=connection).as_sql())

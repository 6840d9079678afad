"""Statements that Django compiles once: for hot paths, where compiling takes longer than executing.

Write the query with `Slot`s in place of the values that differ from call to call.
"""

from __future__ import annotations

from typing import Any, cast

from django.db import connection
from django.db.models import Expression, Field, QuerySet
from django.db.models.sql import UpdateQuery

from webapp.database.planned import typed


class Slot(Expression):
    """A value that is given when the statement is executed."""

    def __init__(self, name: str, field: Field[Any, Any]) -> None:
        super().__init__(output_field=field)
        self.name = name

    def as_sql(self, *_: object) -> tuple[str, Any]:
        """Itself in place of its value."""
        return "%s", [self]

    def adapted(self, value: object) -> Any:
        """As the database has it."""
        return self.output_field.get_db_prep_value(value, connection)


class Prepared:
    """One compiled statement of the current database."""

    def __init__(self, statement: tuple[str, tuple[Any, ...]]) -> None:
        self._sql, self._params = statement

    def execute(self, **values: object) -> tuple[int, list[tuple[Any, ...]]]:
        """The number of changed rows, and the rows that it returns as the database has them."""
        params = [
            param.adapted(values[param.name]) if isinstance(param, Slot) else param
            for param in self._params
        ]
        with connection.cursor() as cursor:
            cursor.execute(self._sql, typed(params))
            return cursor.rowcount, cursor.fetchall() if cursor.description else []


def select(rows: QuerySet[Any, Any]) -> Prepared:
    return Prepared(rows.query.get_compiler(connection=connection).as_sql())


def update(rows: QuerySet[Any], **columns: object) -> Prepared:
    query = cast(UpdateQuery, rows.query.chain(UpdateQuery))
    query.add_update_values(columns)
    return Prepared(query.get_compiler(connection=connection).as_sql())

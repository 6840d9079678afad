"""Statements written by hand about many rows at once, for SQLite and PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from webapp.database.planned import widen_integers


def execute_with_rows(
    columns: Sequence[str], rows: Iterable[Sequence[object]], statement: str, *more: object
) -> list[tuple[Any, ...]]:
    """Execute a statement that reads `rows` as the table `new`, and return the rows that it
    returns.

    Args:
        columns: the names of the columns of `new`.
        more: values of the statement's own places (`%s`).
    """
    adapted = _adapter()
    values = [[adapted(value) for value in row] for row in rows]
    place = f"({', '.join(['%s'] * len(columns))})"
    places = ", ".join([place] * len(values))
    head = f"WITH new ({', '.join(columns)}) AS (VALUES {places}) "
    return fetch_rows(head + statement, [*(value for row in values for value in row), *more])


def fetch_rows(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, widen_integers(values))
        return cursor.fetchall() if cursor.description else []


def _adapter() -> Callable[[object], object]:
    """Return a function that converts a value to what the database's own columns hold."""
    has_uuids = connection.features.has_native_uuid_field
    adapted_moment = connection.ops.adapt_datetimefield_value

    def adapted(value: object) -> object:
        if isinstance(value, UUID):
            return value if has_uuids else value.hex
        return adapted_moment(value) if isinstance(value, datetime) else value

    return adapted

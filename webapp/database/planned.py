"""Cursors for the statements of hot paths: PostgreSQL plans each of them once a connection.

Django puts values into the text of a statement, so the server parses and plans it each time, which
for an upload takes longer than executing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.db.backends.utils import CursorWrapper


def planned_cursor() -> CursorWrapper:
    """Of the current connection. Use it for statements whose text is often the same."""
    if connection.vendor != "postgresql":
        return connection.cursor()
    from django.db.backends.postgresql.base import ServerBindingCursor

    connection.ensure_connection()
    wrapped = connection.make_debug_cursor if connection.queries_logged else connection.make_cursor
    own: Any = ServerBindingCursor
    return wrapped(own(connection.connection))


def typed(values: Sequence[Any]) -> Sequence[Any]:
    """Whole numbers as the database's widest: else each size would be a statement of its own."""
    if connection.vendor != "postgresql":
        return values
    from psycopg.types.numeric import Int8

    return [Int8(value) if type(value) is int else value for value in values]

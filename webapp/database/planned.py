"""Values of statements that PostgreSQL plans once a connection.

The types of its values are part of a statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection


def typed(values: Sequence[Any]) -> Sequence[Any]:
    """Whole numbers as the database's widest: else each size would be a statement of its own."""
    if connection.vendor != "postgresql":
        return values
    from psycopg.types.numeric import Int8

    return [Int8(value) if type(value) is int else value for value in values]

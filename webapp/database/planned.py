"""Statements that PostgreSQL plans once a connection, and their values, whose types are part of a
statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection


def plan_once() -> None:
    """Let PostgreSQL reuse the plan of a repeated statement until the transaction ends. By default
    it plans again for the values where it guesses that this pays, but some statements take far
    longer to plan than to execute.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")


def widen_integers(values: Sequence[Any]) -> Sequence[Any]:
    """Return the values with whole numbers as the database's widest type: otherwise each size would
    be a statement of its own.
    """
    if connection.vendor != "postgresql":
        return values
    from psycopg.types.numeric import Int8

    return [Int8(value) if type(value) is int else value for value in values]

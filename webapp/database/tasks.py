"""Upkeep of the database itself."""

from __future__ import annotations

from celery import shared_task
from django.db import connection


@shared_task(name="database.optimise")
def optimise_database() -> None:
    """Let SQLite look at its tables, so that it chooses the right index: a thousand entries of each
    index, which takes milliseconds at any size (https://www.sqlite.org/lang_analyze.html#approx).
    Not `PRAGMA optimize`: before SQLite 3.46 that passes over every table that this connection
    hasn't asked for. PostgreSQL looks at its tables by itself."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA analysis_limit=1000")
            cursor.execute("ANALYZE")

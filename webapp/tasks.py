"""Upkeep of the database itself."""

from __future__ import annotations

from celery import shared_task
from django.db import connection


@shared_task(name="database.optimise")
def optimise_database() -> None:
    """Let SQLite look at its tables where they grew, so that it chooses the right index (its own
    advice: https://www.sqlite.org/pragma.html#pragma_optimize). PostgreSQL does so by itself."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA optimize=0x10002")

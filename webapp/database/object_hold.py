"""Lets a backup copy objects while the service runs: meanwhile no row gives its object up.

Objects are written before their rows, never change, and are deleted after the rows that name them.
So a backup that takes the rows while nobody deletes has every object that its rows name. Both
sides hold a lock that ends with its process: of the data folder on SQLite, of PostgreSQL there.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection, transaction

ADVISORY_LOCK = int.from_bytes(b"trimtab", "big")


class BackupRunningError(RuntimeError):
    """Raised while a backup copies objects: what was to be deleted stays until it is done."""

    def __init__(self) -> None:
        super().__init__("A backup is running; nothing is deleted until it is done.")


@contextmanager
def deletion() -> Iterator[None]:
    """Begin a transaction that removes rows whose objects are deleted once it has ended.

    Raises:
        BackupRunningError: nothing was done.
    """
    if connection.vendor == "postgresql":
        with transaction.atomic():
            if not _asked("SELECT pg_try_advisory_xact_lock_shared(%s)"):
                raise BackupRunningError
            yield
        return
    with _data_folder() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupRunningError from None
        with transaction.atomic():
            yield


@contextmanager
def hold_objects() -> Iterator[None]:
    """Keep every object meanwhile. Waits for deletions under way, and for another backup."""
    if connection.vendor == "postgresql":
        own = connection.copy()
        try:
            own.set_autocommit(False)
            with own.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [ADVISORY_LOCK])
            yield
        finally:
            own.close()
        return
    with _data_folder() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _asked(sql: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(sql, [ADVISORY_LOCK])
        return bool(cursor.fetchone()[0])


@contextmanager
def _data_folder() -> Iterator[int]:
    """Open the data folder itself: a file for the lock would belong to the first backup's user."""
    handle = os.open(settings.DATA_DIR, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)

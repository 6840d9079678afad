"""The spool's database, which moves to memory if the file fails."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from trimtab.spool.ownership import own_name

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    session TEXT PRIMARY KEY, run TEXT NOT NULL, destination TEXT NOT NULL,
    created REAL NOT NULL, owner TEXT NOT NULL, declaration BLOB, declared INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS segments (
    session TEXT NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, created REAL NOT NULL,
    level INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
    error TEXT NOT NULL DEFAULT '', acknowledged REAL, PRIMARY KEY (session, seq)
);
CREATE TABLE IF NOT EXISTS dead (
    session TEXT NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, created REAL NOT NULL,
    reason TEXT NOT NULL, PRIMARY KEY (session, seq)
);
CREATE TABLE IF NOT EXISTS artefacts (
    session TEXT NOT NULL, sha256 TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
    job TEXT NOT NULL, bytes INTEGER NOT NULL, created REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (session, sha256)
);
CREATE TABLE IF NOT EXISTS postponed (
    session TEXT NOT NULL, item TEXT NOT NULL, times INTEGER NOT NULL, since REAL NOT NULL,
    until REAL, reason TEXT NOT NULL, PRIMARY KEY (session, item)
);
CREATE TABLE IF NOT EXISTS expired (
    session TEXT PRIMARY KEY, uploads INTEGER NOT NULL, last REAL NOT NULL
);
CREATE VIEW IF NOT EXISTS held AS SELECT session, item, until IS NULL AS refused FROM postponed
    WHERE until IS NULL OR until > CAST(strftime('%s', 'now') AS INTEGER);
CREATE INDEX IF NOT EXISTS waiting ON segments (created) WHERE acknowledged IS NULL;
CREATE INDEX IF NOT EXISTS answered ON segments (session, seq) WHERE acknowledged IS NOT NULL;
"""
"""Earlier agents share the file: tables that they fill by position can't get new columns."""
_PATIENCE_SECONDS, _PAUSE_SECONDS = 5.0, 0.01
"""The time for which a connection waits for those of other agents."""


class SpoolDatabase:
    """One connection that all threads of the agent share; `path` None means memory."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.problem = ""
        self.lock = threading.RLock()
        self._connection = connect(path)

    def read(self, sql: str, *values: Any) -> list[Any]:
        with self.lock:
            try:
                return self._execute(sql, values).fetchall()
            except sqlite3.Error as error:
                self._move_to_memory(error)
                return self._execute(sql, values).fetchall()

    def write(self, sql: str, *values: Any, repeat: bool = False) -> int:
        """Write, and return how many rows changed. `repeat` means to repeat a write in memory if it
        fails on disk.
        """
        with self.lock:
            try:
                return self._execute(sql, values).rowcount
            except sqlite3.Error as error:
                self._move_to_memory(error)
                return self._execute(sql, values).rowcount if repeat else 0

    def _execute(self, sql: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        """Execute a statement. SQLite takes `?1` for a name, and Python 3.14 refuses a sequence for
        names.
        """
        if "?1" in sql:
            return self._connection.execute(sql, {str(n): v for n, v in enumerate(values, 1)})
        return self._connection.execute(sql, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything in the block, or nothing if the process is killed."""
        with self.lock:
            self.write("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                with suppress(sqlite3.Error):  # the spool may have moved to memory meanwhile
                    self._connection.execute("COMMIT")

    def used_bytes(self) -> int:
        names = ("page_count", "freelist_count", "page_size")
        pages, free, size = (self.read(f"PRAGMA {name}")[0][0] for name in names)
        return int((pages - free) * size)

    def checkpoint(self) -> None:
        """Checkpoint by a connection of its own, because its sync must not block the sampler."""
        if self.path:
            with suppress(sqlite3.Error), closing(sqlite3.connect(self.path)) as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        with self.lock, suppress(sqlite3.Error):
            self._connection.close()

    def _move_to_memory(self, error: sqlite3.Error) -> None:
        """Copies this agent's sessions if they can be read; the file stays as it is."""
        self.problem = f"{self.path or 'memory'}: {error}"
        old, self._connection = self._connection, connect(None)
        with suppress(sqlite3.Error):
            for row in old.execute("SELECT * FROM sessions WHERE owner = ?", (own_name(),)):
                self._connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        with suppress(sqlite3.Error):
            old.close()
        self.path = None


def connect(path: Path | None) -> sqlite3.Connection:
    """Open a database in autocommit, WAL, synchronous NORMAL: a commit costs 0.02 ms and survives
    any kill.
    """
    connection = sqlite3.connect(
        path or ":memory:", timeout=_PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        _use_wal(connection)
        for pragma in ("synchronous=NORMAL", "wal_autocheckpoint=0"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("PRAGMA cache_size=-64")
        connection.executescript(_SCHEMA)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch the file to WAL. SQLite doesn't wait when two change the mode of a file at the same
    moment, since each holds what the other needs: one is refused, and can try again at once.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(_PAUSE_SECONDS)

"""The database as one file, taken while others write, and put back in one step."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from django.apps import apps
from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from psycopg.conninfo import make_conninfo

PAGES = 2000
"""The pages that are copied between two reports of progress: 8 MB."""
Progress = Callable[[float], None]
"""A function that is called with the share that is done, from 0 to 1."""


class RowsError(RuntimeError):
    """Raised when the database can't be taken or put back; the message says why and what to do."""


@dataclass(frozen=True)
class Snapshot:
    """All rows of one moment, in a file; and what can be asked of that moment."""

    path: Path
    ask: Callable[[str], Iterator[tuple[Any, ...]]]

    def migrations(self) -> list[str]:
        """Return the `app.name` of each migration that was applied."""
        sql = "SELECT app, name FROM django_migrations ORDER BY id"
        return [f"{app}.{name}" for app, name in self.ask(sql)]

    def object_count(self) -> int:
        return int(next(self.ask(f"SELECT COUNT(*) FROM {_keys_sql()}"))[0])  # noqa: S608

    def object_keys(self) -> Iterator[str]:
        """Return the key of every object that a row names, each once, in the order of their
        bytes.
        """
        in_bytes = ' COLLATE "C"' if connection.vendor == "postgresql" else ""
        sql = f"SELECT object_key FROM {_keys_sql()} ORDER BY object_key{in_bytes}"  # noqa: S608
        return (key for (key,) in self.ask(sql))


def _keys_sql() -> str:
    """Return the query of all object keys. The union leaves out what is named twice."""
    tables = sorted(
        model._meta.db_table
        for model in apps.get_models()
        if any(field.name == "object_key" for field in model._meta.get_fields())
    )
    selects = (f"SELECT object_key FROM {table} WHERE object_key <> ''" for table in tables)  # noqa: S608
    return f"({' UNION '.join(selects)}) AS named"


@contextmanager
def snapshot(folder: Path, progress: Progress) -> Iterator[Snapshot]:
    """Write all rows to a file in `folder`. Writers of the service don't wait for it.

    Raises:
        RowsError
    """
    if connection.vendor == "postgresql":
        with _dump(folder / "rows") as taken:
            yield taken
    else:
        with _copy(folder / "rows", progress) as taken:
            yield taken


def has_people() -> bool:
    """Return whether this service has ever been used: its first start makes an owner."""
    if connection.vendor == "sqlite" and not _sqlite_path().exists():
        return False  # Asking would create it.
    table = apps.get_model("accounts", "User")._meta.db_table
    if table not in connection.introspection.table_names():
        return False
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {table}")  # noqa: S608
        return bool(cursor.fetchone()[0])


def replace_rows(source: Path) -> None:
    """Replace all rows by those of a snapshot's file.

    Raises:
        RowsError: nothing has changed.
    """
    if connection.vendor == "postgresql":
        _restore_dump(source)
    else:
        _restore_copy(source)


# SQLite


@contextmanager
def _copy(target: Path, progress: Progress) -> Iterator[Snapshot]:
    """Copy SQLite's database by its online backup, within a read transaction: what others commit
    meanwhile stays out of it, and doesn't make it begin again.
    """

    def on_pages(_status: int, remaining: int, total: int) -> None:
        progress(1 - remaining / max(total, 1))

    path = _sqlite_path()
    if not path.exists():
        raise RowsError(
            f"There is no database {path}. Set TRIMTAB_DATA_DIR to the service's folder."
        )
    source = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=20)
    with closing(source), closing(sqlite3.connect(target)) as copy:
        source.execute("BEGIN")
        source.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        source.backup(copy, pages=PAGES, progress=on_pages)
        copy.execute("PRAGMA journal_mode=DELETE")
        yield Snapshot(target, lambda sql: iter(copy.execute(sql)))


def _restore_copy(source: Path) -> None:
    """Write the copy beside the database, then put it in its place. The old write-ahead log is
    removed.
    """
    _check_copy(source)
    path = _sqlite_path()
    connection.close()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".restoring-", delete=False) as copy:
        with source.open("rb") as file:
            shutil.copyfileobj(file, copy)
        copy.flush()
        os.fsync(copy.fileno())
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    Path(copy.name).replace(path)


def _check_copy(source: Path) -> None:
    with closing(sqlite3.connect(source)) as database:
        try:
            (said,) = database.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            said = str(error)
    if said != "ok":
        raise RowsError(f"The database in the archive is damaged: {said}")


def _sqlite_path() -> Path:
    return Path(str(connection.settings_dict["NAME"])).absolute()


# PostgreSQL


@contextmanager
def _dump(target: Path) -> Iterator[Snapshot]:
    """Dump the database by pg_dump, at the moment of a transaction that answers questions."""
    own = connection.copy()
    try:
        own.set_autocommit(False)
        with own.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            cursor.execute("SELECT pg_export_snapshot()")
            (moment,) = cursor.fetchone()
        tables = [f"--table={table}" for table in _tables()]
        options = ["--format=custom", f"--snapshot={moment}", f"--file={target}", *tables]
        _run("pg_dump", *options, "--no-owner", "--no-privileges", f"--dbname={_address()}")
        yield Snapshot(target, lambda sql: _streamed(own, sql))
    finally:
        own.close()


def _streamed(own: Any, sql: str) -> Iterator[tuple[Any, ...]]:
    with own.chunked_cursor() as cursor:
        cursor.execute(sql)
        yield from cursor


def _restore_dump(source: Path) -> None:
    """Drop our tables and make those of the dump, in one transaction."""
    _ensure_alone()
    drops = "".join(f"DROP TABLE IF EXISTS {table} CASCADE;\n" for table in _tables())
    connection.close()
    with tempfile.TemporaryFile(dir=settings.SCRATCH_DIR) as script:
        script.write(drops.encode())
        script.flush()
        _run("pg_restore", "--no-owner", "--no-privileges", "--file=-", str(source), output=script)
        script.seek(0)
        options = ["--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1"]
        with tempfile.TemporaryFile(dir=settings.SCRATCH_DIR) as said:
            address = f"--dbname={_address()}"
            _run("psql", *options, "--file=-", address, input_from=script, output=said)


def _ensure_alone() -> None:
    """Raise RowsError if web servers or workers are connected."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND usename = current_user AND pid <> pg_backend_pid()"
        )
        (others,) = cursor.fetchone()
    if others:
        raise RowsError(
            f"{others} other connections use the database. Stop web servers, workers and beat."
        )


def _tables() -> list[str]:
    """Return our tables, as far as they exist: the database may have others."""
    ours = connection.introspection.django_table_names(only_existing=True, include_views=False)
    known = MigrationRecorder.Migration._meta.db_table
    return sorted({*ours, known} & set(connection.introspection.table_names()))


def _address() -> str:
    """Return the database's address without the password, which has no place on a command line."""
    named = connection.get_connection_params()
    chosen = {key: str(value) for key, value in named.items() if isinstance(value, (str, int))}
    for unknown in ("password", "prepare_threshold"):  # The latter is psycopg's own
        chosen.pop(unknown, None)
    return make_conninfo(**chosen)


def _run(
    program: str, *words: str, input_from: IO[bytes] | None = None, output: IO[bytes] | None = None
) -> None:
    """Run a program. Raises RowsError with what the program said."""
    if shutil.which(program) is None:
        raise RowsError(
            f"{program} is missing. Install PostgreSQL's client programs, of the server's version "
            "or later (Debian: `sudo apt-get install -y postgresql-client`)."
        )
    password = str(connection.settings_dict["PASSWORD"] or "")
    environment = os.environ | ({"PGPASSWORD": password} if password else {})
    done = subprocess.run(
        [program, *words],
        env=environment,
        stdin=input_from or subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise RowsError(f"{program} failed (exit code {done.returncode}): {said}")

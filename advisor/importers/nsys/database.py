"""An SQLite file of unknown origin, read without trusting its schema or its content.

Only ordinary columns of ordinary tables are read, one table at a time and in the order in which
they are stored: no view, trigger, virtual table or sorter runs. A damaged page ends the reading of
its table. Callers name tables and columns that they know, never those of the file.

A small file can have endless rows, since pages may be used twice. So what is done is counted, in
steps of SQLite's machine, in rows and in bytes of cells, and may only be so much for each byte of
the file.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from advisor.importers.recording import NotImportableError

HEAD = b"SQLite format 3\0"
_ROWS_A_BATCH = 50_000
_STEPS_A_LOOK = 1_000
"""The steps of SQLite's machine between two looks: below a tenth of a millisecond."""
_FEWEST_STEPS, _STEPS_A_BYTE = 300_000, 6
"""A row takes some 20 bytes of the file, and as many steps each time that it is read."""
_LEAST_CELL_BYTES, _READ_A_BYTE = 8 * 1024 * 1024, 8
"""Texts may be read several times."""
_LEAST_ROW_BYTES = 6
"""A cell's pointer of 2 and its least size of 4 (SQLite's file format, "B-tree Pages"). What is
made of a row costs far more than reading it."""
_LEAST_SECONDS, _BYTES_A_SECOND, _MOST_SECONDS = 1.0, 2_000_000, 900.0
"""The limits of CPU time: a step may read a long cell, which is no more steps."""
_MOST_CELL_BYTES = 1024 * 1024
_TEXT_CHARS = 500
_MOST_TABLES = 1_000
_CACHE_KIB = 16 * 1024
_PRAGMAS = (
    "trusted_schema = OFF",
    # Nothing can be written, and what a truncated file still has can then be read.
    "writable_schema = ON",
    "query_only = ON",
    "cell_size_check = ON",
    "mmap_size = 0",
    "temp_store = MEMORY",
    f"cache_size = -{_CACHE_KIB}",
)
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _MOST_CELL_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 64 * 1024,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 2,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 25_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 4,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_PLAIN = re.compile(r"CREATE TABLE\s", re.IGNORECASE)
"""The beginning of a table as SQLite itself stores it, without `VIRTUAL`, `TEMP` or a comment."""
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
_FUNCTIONS = {"typeof", "count"}

Row = tuple[Any, ...]


class Database:
    """One file.

    Attributes:
        columns: table -> its ordinary columns.
    """

    def __init__(self, path: Path) -> None:
        """Open the file. Raises NotImportableError if it is no SQLite database, or its schema is
        damaged or endless.
        """
        size = path.stat().st_size
        self._steps_left = _FEWEST_STEPS + _STEPS_A_BYTE * size
        self._bytes_left = _LEAST_CELL_BYTES + _READ_A_BYTE * size
        self._most_rows = size // _LEAST_ROW_BYTES
        seconds = min(_LEAST_SECONDS + size / _BYTES_A_SECOND, _MOST_SECONDS)
        self._until = time.thread_time() + seconds
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        self._connection = sqlite3.connect(uri, uri=True)
        try:
            self._restrict()
            self.columns = {name: self._columns(name) for name in self._tables()}
        except sqlite3.Error as error:
            self.close()
            raise NotImportableError(f"a damaged SQLite file: {error}") from None

    def close(self) -> None:
        self._connection.close()

    def has(self, table: str, *columns: str) -> bool:
        return set(columns) <= set(self.columns.get(table, ()))

    def count(self, table: str, column: str) -> int:
        """Return the number of rows. Raises NotImportableError."""
        # With a condition that is always true, since SQLite counts without looks otherwise.
        counted = f'SELECT count(*) FROM "{table}" WHERE typeof("{column}") != \'\''  # noqa: S608
        (rows,) = self._batches(counted)
        return int(rows[0][0])

    def read_integer_rows(
        self,
        table: str,
        columns: Sequence[str],
        only: tuple[str, Sequence[int]] | None = None,
        optional: Sequence[str] = (),
    ) -> Iterator[list[Row]]:
        """Yield batches of rows in which all these columns are integers.

        Args:
            optional: columns that come last, and are -1 where they are no integer.
            only: a column, and the values of it that are wanted.

        Raises:
            NotImportableError: the table is damaged from here on, or takes too long.
        """
        named = ", ".join([*(f'"{name}"' for name in columns), *map(_or_none, optional)])
        checked = [f"typeof(\"{name}\") = 'integer'" for name in columns]
        if only:
            checked.append(f'"{only[0]}" IN ({", ".join(map(str, only[1]))})')
        where = " AND ".join(checked)
        return self._batches(f'SELECT {named} FROM "{table}" WHERE {where}')  # noqa: S608

    def texts(self, table: str, columns: Sequence[str], text: str) -> Iterator[list[Row]]:
        """Yield batches of rows with the column `text` as the last. Values may be of any type, of
        texts the first 500 characters; None for bytes, and for columns with no name. Raises
        NotImportableError, as `whole`.
        """
        named = "".join(f'"{name}", ' if name else "NULL, " for name in columns)
        return self._batches(f'SELECT {named}"{text}" FROM "{table}"')  # noqa: S608

    def _restrict(self) -> None:
        connection = self._connection
        connection.text_factory = self._text
        for limit, most in _LIMITS.items():
            connection.setlimit(limit, most)
        # Before any statement: each may read the schema, which may be endless, too.
        connection.set_progress_handler(self._is_late, _STEPS_A_LOOK)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.set_authorizer(_authorised)

    def _is_late(self) -> bool:
        self._steps_left -= _STEPS_A_LOOK
        return self._steps_left < 0 or self._bytes_left < 0 or time.thread_time() > self._until

    def _text(self, body: bytes) -> str:
        self._bytes_left -= len(body)
        return body[: 4 * _TEXT_CHARS].decode(errors="replace")[:_TEXT_CHARS]

    def _without_bytes(self, row: Row) -> Row:
        """Return the row without its bytes: no column of ours has any; they are only counted."""
        self._bytes_left -= sum(len(each) for each in row if isinstance(each, bytes))
        return tuple(None if isinstance(each, bytes) else each for each in row)

    def _tables(self) -> list[str]:
        """Return the plain tables by what the file says; what isn't so after all is refused when it
        is read.
        """
        listed = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
        found = islice(self._connection.execute(listed), _MOST_TABLES)
        return [
            name
            for name, sql in found
            if isinstance(name, str) and '"' not in name and _PLAIN.match(str(sql))
        ]

    def _columns(self, table: str) -> tuple[str, ...]:
        """Return the columns without generated ones, which `table_info` leaves out."""
        found = self._connection.execute(f'PRAGMA table_info("{table}")')
        return tuple(str(row[1]) for row in found)

    def _batches(self, query: str) -> Iterator[list[Row]]:
        rows: list[Row] = []
        problem: Exception | None = None
        try:
            for number, row in enumerate(self._connection.execute(query), start=1):
                if number > self._most_rows:
                    raise sqlite3.DataError("more rows than the file can have")
                rows.append(self._without_bytes(row) if bytes in map(type, row) else row)
                if self._bytes_left < 0:
                    raise sqlite3.DataError("more text than the file can have")
                if len(rows) == _ROWS_A_BATCH:
                    yield rows
                    rows = []
        except (sqlite3.Error, OverflowError) as error:
            problem = error
        if rows:
            yield rows
        if problem:
            raise NotImportableError(f"the table is damaged, or too large: {problem}")


def _or_none(column: str) -> str:
    return f'CASE typeof("{column}") WHEN \'integer\' THEN "{column}" ELSE -1 END'


def _authorised(
    action: int, first: str | None, second: str | None, _database: str | None, view: str | None
) -> int:
    """Allow reading and the functions used here, but to nothing that a view or trigger does."""
    allowed = action in _ALLOWED and view is None
    if action == sqlite3.SQLITE_FUNCTION:
        allowed = second in _FUNCTIONS
    if action == sqlite3.SQLITE_PRAGMA:
        allowed = first == "table_info"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

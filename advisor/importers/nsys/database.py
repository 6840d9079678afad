"""An SQLite file of unknown origin, read without trusting its schema or its content.

Only ordinary columns of ordinary tables are read, one table at a time and in the order in which
they are stored: no view, trigger, virtual table or sorter runs. A damaged page ends the reading of
its table. Callers name tables and columns that they know, never those of the file.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from advisor.importers.recording import NotImportableError

HEAD = b"SQLite format 3\0"
_ROWS_A_BATCH = 50_000
_LONGEST_SECONDS = 900.0
"""Of all reading of one file."""
_STEPS_A_LOOK = 100_000
"""Of SQLite's machine, between two looks at the clock: some milliseconds."""
_MOST_CELL_BYTES = 4 * 1024 * 1024
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
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA}
_FUNCTIONS = {"typeof", "substr", "count"}

Row = tuple[Any, ...]


class Database:
    """One file.

    Attributes:
        columns: table -> its ordinary columns.
    """

    def __init__(self, path: Path) -> None:
        """Raises NotImportableError: no SQLite database, or its schema is damaged."""
        self._until = time.monotonic() + _LONGEST_SECONDS
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        try:
            self._connection = sqlite3.connect(uri, uri=True)
            self._restrict()
            self.columns = {name: self._columns(name) for name in self._tables()}
        except sqlite3.Error as error:
            raise NotImportableError(f"a damaged SQLite file: {error}") from None

    def close(self) -> None:
        self._connection.close()

    def has(self, table: str, *columns: str) -> bool:
        return set(columns) <= set(self.columns.get(table, ()))

    def count(self, table: str) -> int:
        """Raises NotImportableError."""
        (rows,) = self._batches(f'SELECT count(*) FROM "{table}"')  # noqa: S608
        return int(rows[0][0])

    def whole(
        self,
        table: str,
        columns: Sequence[str],
        only: tuple[str, Sequence[int]] | None = None,
        optional: Sequence[str] = (),
    ) -> Iterator[list[Row]]:
        """Batches of rows in which all these columns are integers.

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
        """Batches of rows, with at most 500 characters of the column `text` as the last. Values may
        be of any type, and None for columns with no name. Raises NotImportableError, as `whole`."""
        named = "".join(f'"{name}", ' if name else "NULL, " for name in columns)
        cut = f'substr("{text}", 1, 500)'
        return self._batches(f'SELECT {named}{cut} FROM "{table}"')  # noqa: S608

    def _restrict(self) -> None:
        connection = self._connection
        connection.text_factory = lambda body: body.decode(errors="replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_CELL_BYTES)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.set_progress_handler(self._is_late, _STEPS_A_LOOK)
        connection.set_authorizer(_authorised)

    def _is_late(self) -> bool:
        return time.monotonic() > self._until

    def _tables(self) -> list[str]:
        listed = "SELECT name, sql FROM sqlite_master WHERE type = 'table' LIMIT 1000"
        return [
            str(name)
            for name, sql in self._connection.execute(listed)
            if '"' not in str(name) and not str(sql).upper().startswith("CREATE VIRTUAL")
        ]

    def _columns(self, table: str) -> tuple[str, ...]:
        """Without generated ones, which `table_info` leaves out."""
        found = self._connection.execute(f'PRAGMA table_info("{table}")')
        return tuple(str(row[1]) for row in found)

    def _batches(self, query: str) -> Iterator[list[Row]]:
        rows: list[Row] = []
        problem: Exception | None = None
        try:
            for row in self._connection.execute(query):
                rows.append(row)
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


def _authorised(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    allowed = action in _ALLOWED
    if action == sqlite3.SQLITE_FUNCTION:
        allowed = second in _FUNCTIONS
    if action == sqlite3.SQLITE_PRAGMA:
        allowed = first == "table_info"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

"""SQLite files as Nsight Systems never writes them: each runs, hangs or fills memory."""

# ruff: noqa: E501, S608 - statements of SQL, made for tests

from __future__ import annotations

import random
import re
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

from tests.imports import nsys_files
from tests.imports.mutating import mutations

Named = Iterator[tuple[str, bytes]]
TABLES = re.findall(r"CREATE TABLE (\w+)", nsys_files.SCHEMA)
PAGE = 4096
COSTLY = "hex(zeroblob(4000000))"
COUNTED = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS start, x AS end, "
    "0 AS deviceId, 1 AS shortName, 1 AS demangledName, 'a' AS text, 1 AS id, 'a' AS value FROM n"
)
CROSSED = (
    "SELECT a.id AS start, b.id AS end, 0 AS deviceId, 1 AS shortName, 1 AS demangledName, "
    "'a' AS text, 1 AS id, 'a' AS value FROM Many a, Many b, Many c, Many d, Many e"
)


@cache
def honest() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made = nsys_files.Export(Path(folder, "a.sqlite"))
        for number in range(20):
            made.range(f"step {number}", 10 * number, 9)
            made.kernel("gemm<float>", 10 * number, 4)
            made.call("cudaLaunchKernel", 10 * number, 1)
        made.metric("SMs Active [Throughput %]", range(20))
        return made.saved().read_bytes()


def changed(path: Path, *statements: str) -> bytes:
    """Return an export after these statements, its schema writable."""
    path.write_bytes(honest())
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA writable_schema = ON")
        database.execute("BEGIN")
        for statement in statements:
            database.execute(statement)
        database.execute("COMMIT")
    return path.read_bytes()


def instead(table: str, sql: str, listed: str = "table") -> tuple[str, ...]:
    """Return a table's place in the schema, taken by something else."""
    return (
        "CREATE TABLE Many (id INTEGER PRIMARY KEY)",
        f"INSERT INTO Many VALUES {', '.join(f'({n})' for n in range(300))}",
        f"DROP TABLE {table}",
        "INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) VALUES "
        f"('{listed}', '{table}', '{table}', 0, '{sql.replace(chr(39), chr(39) * 2)}')",
    )


def views(path: Path) -> Named:
    for table in TABLES:
        for called, select in (("crossed", CROSSED), ("counted", COUNTED)):
            view = f"CREATE VIEW {table} AS {select}"
            for listed in ("table", "view"):
                yield (
                    f"{called} view {table} as {listed}",
                    changed(path, *instead(table, view, listed)),
                )
    hidden = instead(
        "CUPTI_ACTIVITY_KIND_KERNEL", f"/* */ CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {CROSSED}"
    )
    yield "view after a comment", changed(path, *hidden)
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "StringIds"):
        view = f"CREATE VIEW {table} AS {CROSSED}"
        said = instead(table, view, "view")
        columns = "start INTEGER, end INTEGER, deviceId, shortName, text, id, value"
        twin = (
            "INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) VALUES "
            f"('table', '{table}', '{table}', 2, 'CREATE TABLE other ({columns})')"
        )
        yield f"view {table} behind a table", changed(path, *said, twin)
        yield f"table before a view {table}", changed(path, twin, *said)


def schemas(path: Path) -> Named:
    kernel = "CUPTI_ACTIVITY_KIND_KERNEL"
    columns = "start INTEGER, end INTEGER, deviceId INTEGER, shortName INTEGER, globalPid INTEGER"
    row = f"INSERT INTO {kernel} (start, end, deviceId, shortName, globalPid) VALUES "
    rows = row + ", ".join(f"({n}, {n + 1}, 0, 1, 1)" for n in range(300))
    drop = f"DROP TABLE {kernel}"
    made = (
        f"CREATE TABLE {kernel} (a INTEGER, end INTEGER, deviceId INTEGER, shortName INTEGER, start "
        f"INTEGER GENERATED ALWAYS AS (length({COSTLY}) + a))",
        f"CREATE TABLE {kernel} ({columns}, PRIMARY KEY (start, end)) WITHOUT ROWID",
        f"CREATE TABLE {kernel} ({columns}, x AS ({COSTLY}), CHECK (length({COSTLY}) > 1))",
        f"CREATE TABLE {kernel} ({columns}, demangledName TEXT AS ({COSTLY}))",
        f"CREATE TABLE {kernel} ({columns}, demangledName INTEGER DEFAULT ({COSTLY}))",
        f"CREATE TABLE {kernel} ({columns} COLLATE nocase, PRIMARY KEY (start COLLATE rtrim, end))",
        f"CREATE TABLE {kernel} ({columns}, {', '.join(f'c{n}' for n in range(1_900))})",
        f"CREATE TABLE {kernel} ({columns}, x DEFAULT '{'x' * 500_000}')",
        f"CREATE TABLE {kernel} ({columns}, CHECK ({'(' * 90}1{')' * 90}))",
        f"CREATE TABLE {kernel} ({columns}, \"a\"\"b\")",
    )  # fmt: skip
    for sql in made:
        filled = [] if "GENERATED" in sql else [rows]
        yield f"{sql[:160]}", changed(path, drop, sql, *filled)
    for index in (f"(length({COSTLY}) + start)", "(start) WHERE typeof(start) = 'integer'",
                  "(typeof(start), typeof(end))", "(start, end, deviceId, shortName)"):  # fmt: skip
        yield f"index {index}", changed(path, f"CREATE INDEX i ON {kernel} {index}")
    trigger = f"CREATE TRIGGER t AFTER INSERT ON {kernel} BEGIN DELETE FROM {kernel}; END"
    yield "trigger", changed(path, trigger)
    for module in (
        "fts5(start, end)",
        "rtree(id, start, end)",
        "dbstat",
        "json_each",
        "nothing(1)",
    ):
        sql = f"CREATE VIRTUAL TABLE {kernel} USING {module}"
        yield sql, changed(path, *instead(kernel, sql))
        yield (
            f"create table {sql}",
            changed(path, *instead(kernel, sql.replace("VIRTUAL TABLE", "TABLE"))),
        )
    many = (f"('table', 't{n}', 't{n}', 2, 'CREATE TABLE t{n} (a)')" for n in range(1_500))
    yield "many tables", changed(path, f"INSERT INTO sqlite_master VALUES {', '.join(many)}")
    for sql in ("CREATE TABLE", "CREATE TABLE x AS SELECT 1", "DROP TABLE x", "ATTACH 'x' AS y", "",
                "CREATE TABLE x(" + "(" * 5_000, "CREATE TEMP TABLE x (start)"):  # fmt: skip
        yield f"schema {sql[:30]!r}", changed(path, *instead(kernel, sql))


def cells(path: Path) -> Named:
    big = f"zeroblob({3 * 2**20})"
    for table, column in (("StringIds", "value"), ("TARGET_INFO_SYSTEM_ENV", "name"),
                          ("NVTX_EVENTS", "text"), ("TARGET_INFO_GPU_METRICS", "metricName")):  # fmt: skip
        for content in (
            big,
            f"CAST({big} AS TEXT)",
            f"hex({big})",
            "1e999",
            "-9223372036854775808",
        ):
            needed = {"NVTX_EVENTS": "start, end, eventType, ", "TARGET_INFO_GPU_METRICS":
                      "metricId, typeId, sourceId, typeName, ", "StringIds": "id, "}  # fmt: skip
            first = needed.get(table, "")
            values = "7, " * first.count(",")
            sql = f"INSERT INTO {table} ({first}{column}) VALUES ({values}{content})"
            yield f"{table}.{column} {content[:20]}", changed(path, sql)
    for value in ("'x'", "1.5", "-1", "9223372036854775807", "x'00ff'"):
        for column in ("start", "end", "deviceId", "shortName", "globalPid"):
            yield (
                f"{column} = {value}",
                changed(path, f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {column} = {value}"),
            )
    metrics = (
        f"INSERT INTO TARGET_INFO_GPU_METRICS SELECT {n}, 0, 'a', {n}, 'SMs Active'"
        for n in range(3_000)
    )
    values = (f"INSERT INTO GPU_METRICS VALUES ({n}, {n % 64}, {n}, 50)" for n in range(3_000))
    long = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 9000000000000 WHERE rowid = 1"
    yield "metrics of many ids", changed(path, *metrics, *values, long)


def trees(path: Path) -> Named:
    """Yield B-trees whose pages are used more than once: endless rows from some pages."""
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "StringIds", "GPU_METRICS", "sqlite_master",
                  "TARGET_INFO_SYSTEM_ENV", "TARGET_INFO_SESSION_START_TIME"):  # fmt: skip
        body = bytearray(changed(path))
        root = _root_of(path, table)
        yield f"endless {table}", _endless(body, root)
    for kind in ("", "CAST "):
        text = f"hex(zeroblob({400 * 2**10}))" if kind else f"zeroblob({800 * 2**10})"
        for table in ("StringIds", "TARGET_INFO_SYSTEM_ENV"):
            first = "id, value" if table == "StringIds" else "value, name"
            value = f"99, {text}" if table == "StringIds" else f"'a', {text}"
            body = bytearray(changed(path, f"INSERT INTO {table} ({first}) VALUES ({value})"))
            root = _root_of(path, table)
            yield f"endless long {kind}{table}", _endless(_overflowing(body, root), root)


def _root_of(path: Path, table: str) -> int:
    if table == "sqlite_master":
        return 1
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [table])
        return int(found.fetchone()[0])


def _endless(body: bytearray, root: int) -> bytes:
    """Return the page of the root below 15 more, each of which names the next one 300 times."""
    leaf, pages = body[(root - 1) * PAGE : root * PAGE], len(body) // PAGE
    start = 100 if root == 1 else 0
    chain = [root, *range(pages + 1, pages + 15)]
    for at, number in enumerate(chain[:-1]):
        below = chain[at + 1]
        here = start if number == root else 0
        cells = [struct.pack(">IB", below, 1)] * 300
        first = PAGE - len(cells) * 5
        head = struct.pack(">BHHHBI", 5, 0, len(cells), first, 0, below)
        places = b"".join(struct.pack(">H", first + 5 * n) for n in range(len(cells)))
        page = (bytes(body[:here]) + head + places).ljust(first, b"\0") + b"".join(cells)
        if number == root:
            body[(root - 1) * PAGE : root * PAGE] = page
        else:
            body += page
    if start:
        # A leaf elsewhere has no file header before it: its cells stay where they are.
        count = struct.unpack_from(">H", leaf, 103)[0]
        moved = bytearray(PAGE)
        moved[: 8 + 2 * count] = leaf[100 : 108 + 2 * count]
        low = min(struct.unpack_from(f">{count}H", leaf, 108), default=PAGE)
        moved[low:] = leaf[low:]
        leaf = moved
    body += leaf
    struct.pack_into(">I", body, 28, len(body) // PAGE)
    return bytes(body)


def _overflowing(body: bytearray, root: int) -> bytearray:
    """Return the pages of a long cell's end, replaced by one that follows itself."""
    leaf = body[(root - 1) * PAGE : root * PAGE]
    count = struct.unpack_from(">H", leaf, 3)[0]
    last = min(struct.unpack_from(f">{count}H", leaf, 8))
    own, every = len(honest()) // PAGE, len(body) // PAGE
    places = (struct.unpack_from(">I", leaf, at)[0] for at in range(last, PAGE - 3))
    following = next(number for number in places if own < number <= every)
    struct.pack_into(">I", body, (following - 1) * PAGE, following)
    del body[following * PAGE :]
    return body


def damaged(count: int) -> Named:
    chance = random.Random(39)
    for number in range(count):
        yield f"damaged {number}", mutations(honest(), chance)
    for at in (18, 19, 16, 20, 28, 44, 47, 52, 56, 100, 103, 105, 107):
        for value in (0, 1, 2, 255):
            body = bytearray(honest())
            body[at] = value
            yield f"byte {at} = {value}", bytes(body)


def every(path: Path, damages: int = 40) -> Named:
    for family in (views, schemas, cells, trees):
        yield from family(path)
    yield from damaged(damages)

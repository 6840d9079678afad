"""SQLite files of unknown origin: none runs a view, hangs, writes or fills memory."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from advisor.importers import nsys
from advisor.importers.nsys.database import Database
from advisor.importers.recording import NotImportableError
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from tests.cpu_time import is_within
from tests.imports import hostile_databases as hostile
from tests.imports.costs import cost_of


def read(folder: Path) -> str:
    tally, source = Tally(), Source.from_path(folder)
    try:
        if not nsys.recognises(source):
            return "refused"
        recording = nsys.open_recording(source, StatedFacts(), tally)
        for node in recording.nodes:
            assert list(recording.parts(node))
    except NotImportableError:
        return "refused"
    return "skipped" if tally.skipped else "taken"


def test_200_hostile_files_take_little(tmp_path):
    (tmp_path / "read").mkdir()
    ended: Counter[str] = Counter()
    for name, body in hostile.every(tmp_path / "made.sqlite"):
        (tmp_path / "read" / "a.sqlite").write_bytes(body)
        cost = cost_of(lambda: ended.update([read(tmp_path / "read")]))
        assert is_within(cost.cpu_seconds, 2), name
        assert cost.peak_bytes < 200e6, name
    assert ended.total() >= 200
    assert min(ended.values()) >= 20, ended


def test_the_smallest_rows_of_a_sound_table_are_all_read(tmp_path):
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE marks (a)")
        made.executemany("INSERT INTO marks VALUES (?)", [(None,)] * 100_000)
    with closing(Database(path)) as database:
        assert sum(map(len, database.texts("marks", [], "a"))) == 100_000


def test_no_table_has_more_rows_than_fit_into_the_file(tmp_path):
    """The work that is done for each row is the most by far."""
    files = dict(hostile.trees(tmp_path / "made.sqlite"))
    path = tmp_path / "a.sqlite"
    path.write_bytes(files["endless NVTX_EVENTS"])
    read: list[int] = []
    too_many = pytest.raises(NotImportableError, match="more rows than the file can have")
    with closing(Database(path)) as database, too_many:
        read.extend(map(len, database.texts("NVTX_EVENTS", ["start"], "text")))
    assert sum(read) <= path.stat().st_size / 6


def test_a_view_in_the_place_of_a_table_never_runs(tmp_path):
    """24 KB that kept a worker for 15 minutes."""
    path, table = tmp_path / "a.sqlite", "CUPTI_ACTIVITY_KIND_KERNEL"
    view = f"CREATE VIEW {table} AS {hostile.CROSSED}"
    path.write_bytes(hostile.changed(tmp_path / "made.sqlite", *hostile.instead(table, view)))
    with closing(Database(path)) as database:
        assert table not in database.columns
        assert "NVTX_EVENTS" in database.columns
        with pytest.raises(NotImportableError, match=r"prohibited|not authorized"):
            list(database.read_integer_rows(table, ["start", "end"]))


def test_a_journal_beside_the_file_is_not_played_back(tmp_path):
    path = tmp_path / "a.sqlite"
    path.write_bytes(hostile.honest())
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")
        database.execute("BEGIN")
        database.execute("DELETE FROM NVTX_EVENTS")
        database.execute("CREATE TABLE much AS SELECT zeroblob(900000) AS x")
        for name in ("a.sqlite", "a.sqlite-journal"):
            (tmp_path / "copy").mkdir(exist_ok=True)
            shutil.copy(tmp_path / name, tmp_path / "copy" / name)
    before = {each.name: each.read_bytes() for each in (tmp_path / "copy").iterdir()}
    assert len(before["a.sqlite-journal"]) > 512
    read(tmp_path / "copy")
    assert {each.name: each.read_bytes() for each in (tmp_path / "copy").iterdir()} == before


def test_a_whole_file_within_the_bounds_is_taken(tmp_path):
    (tmp_path / "a.sqlite").write_bytes(hostile.honest())
    assert read(tmp_path) == "taken"

"""Makes what a disk has after a loss of power, before any process of the service runs again."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.faults.house import House

SEGMENTS = "SELECT session_id, seq, object_key, sha256 FROM runs_segment"


def missing(house: House) -> list[str]:
    """Return the acknowledged segments of uploading agents that have no row, or not its object."""
    rows = {(session, seq): (key, sha256) for session, seq, key, sha256 in _rows(house, SEGMENTS)}
    found = []
    for agent in house.agents:
        for seq in sorted(agent.acknowledged):
            key, sha256 = rows.get((agent.session_id.hex, seq), (None, ""))
            if key is None:
                found.append(f"segment {seq} of {agent.session_id} has no row")
            elif key and not _is_stored(house, key, sha256):
                found.append(f"segment {seq} of {agent.session_id} has no object {key}")
    return found


def _rows(house: House, sql: str) -> Iterator[tuple[str, int, str, str]]:
    """Read a copy: to open the database itself would already mend it."""
    with tempfile.TemporaryDirectory(prefix="trimtab-flushed-") as name:
        for path in house.data_dir.glob("trimtab.sqlite3*"):
            shutil.copy(path, Path(name, path.name))
        with contextlib.closing(sqlite3.connect(Path(name, "trimtab.sqlite3"))) as copy:
            assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            yield from copy.execute(sql).fetchall()


def _is_stored(house: House, key: str, sha256: str) -> bool:
    if house.s3 is not None:
        return True
    path = house.data_dir / "objects" / key
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256

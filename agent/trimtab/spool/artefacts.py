"""Files that wait for upload: profile traces, imported folders."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trimtab.spool.database import SpoolDatabase
from trimtab.spool.postponed import PostponedUploads

MOST_BYTES = 64 * 1024 * 1024
"""The service's limit for one artefact."""
_SHELF_BYTES = 4 * MOST_BYTES
_FOLDER = "artefacts"
_PIECE_BYTES = 256 * 1024


@dataclass(frozen=True)
class Artefact:
    """One file, identified by its content."""

    run: str
    session: str
    sha256: str
    kind: str
    name: str
    job: str
    path: Path


class Artefacts:
    """The files are in a folder beside the spool's database, which describes them."""

    def __init__(self, database: SpoolDatabase) -> None:
        self._database = database

    def add(self, session: str, kind: str, source: Path, name: str, job: str = "") -> bool:
        """Move the file into the spool. Returns False if there is no folder for it, or it is too
        large.
        """
        if self._database.path is None or source.stat().st_size > MOST_BYTES:
            return False
        folder = self._database.path.parent / _FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        sha256 = _sha256(source)
        shutil.move(source, folder / sha256)
        os.chmod(folder / sha256, 0o600)  # noqa: PTH101
        row = session, sha256, kind, name, job, os.path.getsize(folder / sha256), time.time()  # noqa: PTH202
        self._database.write(_ADD, *row)
        self._bound()
        return True

    def has_room(self) -> bool:
        """Return whether one more of the largest files fits, without the oldest being dropped."""
        held = self._database.read("SELECT COALESCE(SUM(bytes), 0) FROM artefacts")
        return int(held[0][0]) + 2 * MOST_BYTES <= _SHELF_BYTES

    def waiting(self, sessions: Iterable[str]) -> Artefact | None:
        """Return the artefact with the fewest failures, oldest first."""
        for *texts, sha256 in self._database.read(_NEXT, json.dumps(list(sessions))):
            run, session, kind, name, job = texts
            path = self._path(sha256)
            if path and path.exists():
                return Artefact(run, session, sha256, kind, name, job, path)
            self.delete_settled(session, sha256)
        return None

    def delete_settled(self, session: str, sha256: str) -> None:
        """Remove an artefact that the service accepted or refused."""
        delete = "DELETE FROM artefacts WHERE session = ? AND sha256 = ?"
        self._database.write(delete, session, sha256)
        PostponedUploads(self._database).forget(session, sha256)
        shared = self._database.read("SELECT 1 FROM artefacts WHERE sha256 = ?", sha256)
        path = self._path(sha256)
        if path and not shared:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def count_failure(self, session: str, sha256: str) -> None:
        sql = "UPDATE artefacts SET attempts = attempts + 1 WHERE session = ? AND sha256 = ?"
        self._database.write(sql, session, sha256)

    def count(self, sessions: Iterable[str] | None = None) -> int:
        chosen = None if sessions is None else json.dumps(list(sessions))
        return int(self._database.read(_COUNT, chosen)[0][0])

    def _path(self, sha256: str) -> Path | None:
        return self._database.path.parent / _FOLDER / sha256 if self._database.path else None

    def _bound(self) -> None:
        for session, sha256 in self._database.read(_TOO_MUCH, _SHELF_BYTES):
            self.delete_settled(session, sha256)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(_PIECE_BYTES), b""):
            digest.update(piece)
    return digest.hexdigest()


_ADD = """
INSERT OR IGNORE INTO artefacts (session, sha256, kind, name, job, bytes, created)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_NEXT = """
SELECT run, session, kind, name, job, sha256 FROM artefacts JOIN sessions USING (session)
    WHERE session IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM held WHERE held.session = artefacts.session AND item = sha256)
    ORDER BY attempts, artefacts.created LIMIT 10
"""
_COUNT = """
SELECT COUNT(*) FROM artefacts
    WHERE (?1 IS NULL OR session IN (SELECT value FROM json_each(?1)))
    AND NOT EXISTS (SELECT 1 FROM held
        WHERE held.session = artefacts.session AND item = sha256 AND refused)
"""
_TOO_MUCH = """
SELECT session, sha256 FROM (SELECT session, sha256,
    SUM(bytes) OVER (ORDER BY created DESC, rowid DESC) AS held FROM artefacts) WHERE held > ?
"""

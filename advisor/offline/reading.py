"""Reads the runs of a folder: the agent's spool, or segments and declarations as files.

The spool is `spool.sqlite3` in the agent's state folder; `trimtab.spool.database` has its tables.
Files are upload bodies: `*.segment` and `*.declaration`, in any subfolder.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from trimtab.wire import Declaration, Segment, WireError, decode_declaration, decode_segment

SPOOL = "spool.sqlite3"
SEGMENT, DECLARATION = ".segment", ".declaration"
_NOTHING = (
    "{folder} holds no samples: neither an agent's spool ({spool}) nor files named *.segment. The "
    "agent's spool is in TRIMTAB_STATE_DIR, by default ~/.local/state/trimtab; segments leave the "
    "spool 15 minutes after a service took them"
)
_DECLARATIONS = "SELECT run, declaration FROM sessions WHERE declaration IS NOT NULL"
_SEGMENTS = "SELECT session, seq, body FROM segments ORDER BY session, seq"

Decoded = TypeVar("Decoded")


class FolderError(Exception):
    """Nothing can be analysed. The message says why and what to do."""


@dataclass
class StoredSegment:
    """A segment, its body, and the file it was read from."""

    segment: Segment
    body: bytes


@dataclass
class StoredRun:
    """The files of one run in a folder."""

    run_id: UUID
    declarations: list[Declaration] = field(default_factory=list)
    segments: list[StoredSegment] = field(default_factory=list)

    @property
    def job(self) -> str:
        named = [each.job for each in self.declarations] or [s.segment.job for s in self.segments]
        return named[-1]


@dataclass
class Folder:
    """The runs of a folder that have samples, and why each unreadable part can't be read."""

    runs: dict[UUID, StoredRun] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)

    def run(self, run_id: UUID) -> StoredRun:
        return self.runs.setdefault(run_id, StoredRun(run_id))


@dataclass(frozen=True)
class _Part:
    """The bytes of a segment or declaration, and its location for error messages."""

    place: str
    body: bytes


def read_folder(path: Path) -> Folder:
    """Read the whole folder.

    Raises:
        FolderError: no such folder, no samples in it, or none that can be read; names it.
    """
    if not path.is_dir():
        what = "is not a folder" if path.exists() else "does not exist"
        raise FolderError(f"{path} {what}; name the folder of a run, or the agent's state folder")
    spool = path / SPOOL
    declarations, segments = _in_spool(spool) if spool.is_file() else _in_files(path)
    return _folder(path, declarations, segments)


def _folder(path: Path, declarations: Iterable[_Part], segments: Iterable[_Part]) -> Folder:
    folder = Folder()
    parts = list(segments)
    for part in parts:
        segment = _decoded(part, decode_segment, folder)
        if segment is not None:
            folder.run(segment.run_id).segments.append(StoredSegment(segment, part.body))
    if not parts:
        raise FolderError(_NOTHING.format(folder=path, spool=SPOOL))
    for part in declarations:
        declaration = _decoded(part, decode_declaration, folder)
        if declaration is not None and declaration.run_id in folder.runs:
            folder.run(declaration.run_id).declarations.append(declaration)
    if not folder.runs:
        raise FolderError(f"no segment can be read: {'; '.join(folder.unreadable[:3])}")
    return folder


def _decoded(part: _Part, decode: Callable[[bytes], Decoded], folder: Folder) -> Decoded | None:
    try:
        return decode(part.body)
    except WireError as error:
        folder.unreadable.append(f"{part.place}: {error}")
        return None


def _in_files(folder: Path) -> tuple[Iterator[_Part], Iterator[_Part]]:
    return _files(folder, DECLARATION), _files(folder, SEGMENT)


def _files(folder: Path, suffix: str) -> Iterator[_Part]:
    for path in sorted(folder.rglob(f"*{suffix}")):
        try:
            yield _Part(str(path), path.read_bytes())
        except OSError as error:
            yield _Part(f"{path}: {error.strerror}", b"")


def _in_spool(path: Path) -> tuple[list[_Part], list[_Part]]:
    """Read only: an agent may be writing to it."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as spool:
            declared = [_Part(f"{path}: run {r}", body) for r, body in spool.execute(_DECLARATIONS)]
            segments = [
                _Part(f"{path}: segment {seq} of session {session}", body)
                for session, seq, body in spool.execute(_SEGMENTS)
            ]
    except sqlite3.Error as error:
        raise FolderError(f"{path} can't be read: {error}") from None
    return declared, segments

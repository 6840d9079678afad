"""`manage.py backup`: everything of a running service into one archive."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from django.conf import settings
from django.db import connection

import webapp
from advisor.store.folder import FolderStore
from advisor.store.objects import ObjectMissingError, ObjectStore
from advisor.store.opening import open_store
from webapp.backup import rows
from webapp.backup.archive import (
    FACTS,
    IN_MEMORY_BYTES,
    LISTED,
    OBJECTS,
    ROWS,
    SECRETS,
    Facts,
    Writer,
)
from webapp.database import object_hold

MOST_NAMED = 5
Stage = Callable[[str], rows.Progress]
"""A function that begins a part of the work; the function that it returns is called with the share
that is done."""


class BackupError(RuntimeError):
    """Raised when no archive was made; the message says why and what to do."""


@dataclass(frozen=True)
class BackupScope:
    """Parts of the archive besides the rows."""

    has_objects: bool
    has_secrets: bool
    may_miss_objects: bool = False
    """True if objects that rows name and the store has lost are left out instead of ending the
    backup."""


@dataclass
class BackupResult:
    """The result of a backup."""

    facts: Facts
    missing: list[str] = field(default_factory=list)
    """The keys of objects that the store has lost."""


def keeps_objects_in_a_folder() -> bool:
    return isinstance(open_store(settings.OBJECTS_URL), FolderStore)


def make_backup(path: Path, wanted: BackupScope, stage: Stage) -> BackupResult:
    """Write the archive; it has its name once it is whole.

    Raises:
        BackupError, RowsError: nothing is left at `path`.
    """
    if path.exists():
        raise BackupError(f"{path} exists already. Choose another name, or delete it first.")
    with (
        _draft(path) as file,
        tempfile.TemporaryDirectory(dir=path.parent) as folder,
        object_hold.hold_objects(),
        rows.snapshot(Path(folder), stage("Copying the database")) as taken,
    ):
        return _write(file, taken, wanted, stage)


@contextmanager
def _draft(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that only its user can read, and that takes its name at the end."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _write(
    file: IO[bytes], taken: rows.Snapshot, wanted: BackupScope, stage: Stage
) -> BackupResult:
    made = BackupResult(_facts(taken, wanted))
    writer = Writer(file)
    writer.add_bytes(FACTS, made.facts.write())
    with taken.path.open("rb") as database:
        writer.add(ROWS[connection.vendor], database)
    if wanted.has_secrets:
        _add_secrets(writer)
    _add_objects(writer, taken, wanted, made, stage)
    writer.close()
    return made


def _facts(taken: rows.Snapshot, wanted: BackupScope) -> Facts:
    return Facts(
        trimtab=webapp.__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        engine=connection.vendor,
        migrations=taken.migrations(),
        has_objects=wanted.has_objects,
        object_count=taken.object_count(),
    )


def _add_secrets(writer: Writer) -> None:
    for name, member in sorted(SECRETS.items(), key=lambda pair: pair[1]):
        path = Path(settings.DATA_DIR) / name
        if path.exists():
            writer.add_bytes(member, path.read_bytes())


def _add_objects(
    writer: Writer, taken: rows.Snapshot, wanted: BackupScope, made: BackupResult, stage: Stage
) -> None:
    store = open_store(settings.OBJECTS_URL)
    title = "Copying objects" if wanted.has_objects else "Listing objects"
    done, count = stage(title), made.facts.object_count
    if wanted.has_objects:
        for number, key in enumerate(taken.object_keys(), start=1):
            if not _add_object(writer, store, key):
                made.missing.append(key)
            done(number / count)
    else:
        _add_list(writer, taken, store, made)
    done(1.0)
    if made.missing and not wanted.may_miss_objects:
        named = "".join(f"\n    {key}" for key in made.missing[:MOST_NAMED])
        raise BackupError(
            f"{len(made.missing)} objects are missing in {settings.OBJECTS_URL}, for example:"
            f"{named}\nRestore them from an older backup, or run again with --allow-missing: the "
            "archive is made without them."
        )


def _add_object(writer: Writer, store: ObjectStore, key: str) -> bool:
    """Add an object; return False if the store has lost it."""
    try:
        with store.open(key) as found, _seekable(found) as source:
            writer.add(f"{OBJECTS}{key}", source)
    except ObjectMissingError:
        return False
    return True


@contextmanager
def _seekable(source: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield the content as a seekable file. The size of a member comes before it, and a bucket's
    answer can be read only once.
    """
    if getattr(source, "seekable", lambda: False)():
        yield source
        return
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, dir=str(settings.SCRATCH_DIR)) as spooled:
        shutil.copyfileobj(source, spooled)
        spooled.seek(0)
        yield spooled


def _add_list(writer: Writer, taken: rows.Snapshot, store: ObjectStore, made: BackupResult) -> None:
    sizes = {stored.key: stored.size_bytes for stored in store.list("")}
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, dir=str(settings.SCRATCH_DIR)) as lines:
        for key in taken.object_keys():
            if key in sizes:
                lines.write(f"{sizes[key]} {key}\n".encode())
            else:
                made.missing.append(key)
        lines.seek(0)
        writer.add(LISTED, lines)

"""`manage.py restore`: a service made from an archive, which is checked as a whole before."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

import webapp
from advisor.store.opening import open_store
from webapp import env
from webapp.backup import rows
from webapp.backup.archive import (
    LISTED,
    OBJECTS,
    PIECE_BYTES,
    ROWS,
    SECRETS,
    SUMS,
    ArchiveError,
    ArchiveReader,
    Facts,
)
from webapp.backup.making import MOST_NAMED, Stage


class RestoreError(RuntimeError):
    """Raised when the archive doesn't fit this service; the message says why and what to do.
    Nothing was changed.
    """


@dataclass(frozen=True)
class RestoreResult:
    facts: Facts
    has_secrets: bool


def check(path: Path, stage: Stage) -> Facts:
    """Read the whole archive and compare it with its hashes, and with this service.

    Raises:
        ArchiveError, RestoreError, OSError
    """
    reader = ArchiveReader(path)
    try:
        facts = reader.facts()
        _ensure_known(facts)
        _ensure_whole(reader, facts, stage("Checking the archive"))
    except tarfile.TarError as error:  # the archive ends in the middle of a member
        raise ArchiveError(f"{path} is cut off: {error}") from None
    return facts


def restore(path: Path, facts: Facts, stage: Stage) -> RestoreResult:
    """Put a checked archive in place: objects, then rows, then what later versions changed.

    An interrupted restore can be repeated: until the rows are replaced, all else is what it was.
    """
    done, reader, has_secrets = stage("Restoring objects and rows"), ArchiveReader(path), False
    store = open_store(settings.OBJECTS_URL)
    with tempfile.TemporaryDirectory(dir=settings.DATA_DIR) as folder:
        database = Path(folder) / "rows"
        for name, end, content in reader.members():
            if name == ROWS[facts.engine]:
                _extract(content, database)
            elif name.startswith(OBJECTS):
                store.put_file(name.removeprefix(OBJECTS), content)
            elif name in SECRETS.values():
                has_secrets = True
                _extract(content, Path(folder) / Path(name).name)
            done(end / reader.size_bytes)
        rows.replace_rows(database)
        _put_secrets(Path(folder))
    done(1.0)
    call_command("migrate", interactive=False, verbosity=0)
    return RestoreResult(facts, has_secrets)


def _ensure_known(facts: Facts) -> None:
    """Check that this version can open the rows, on this engine."""
    made_by = f"The archive was made by Trimtab {facts.trimtab}, this is {webapp.__version__}."
    if _version(facts.trimtab) > _version(webapp.__version__):
        raise RestoreError(f"{made_by} Update this service first.")
    disk = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    known = {f"{app}.{name}" for app, name in disk or {}}
    if unknown := sorted(set(facts.migrations) - known):
        raise RestoreError(
            f"{made_by} It has migrations that this version doesn't know "
            f"({', '.join(unknown[:MOST_NAMED])}). Update this service first."
        )
    if facts.engine != connection.vendor:
        raise RestoreError(
            f"The archive holds a {facts.engine} database, and DATABASE_URL names a "
            f"{connection.vendor} one. Set DATABASE_URL to a {facts.engine} database."
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _ensure_whole(reader: ArchiveReader, facts: Facts, done: rows.Progress) -> None:
    """Check that every member has the hash that the list at the end has for it, and that none is
    missing.
    """
    names: set[str] = set()
    with tempfile.TemporaryFile(dir=settings.SCRATCH_DIR) as sums:
        for name, end, content in reader.members():
            if name == SUMS:
                _compare(sums, content)
                break
            sums.write(f"{_sha256(content)}  {name}\n".encode())
            if not name.startswith(OBJECTS):
                names.add(name)
            if name == LISTED:
                content.seek(0)
                _ensure_in_bucket(content)
            done(end / reader.size_bytes)
    if ROWS[facts.engine] not in names:
        raise ArchiveError(f"{ROWS[facts.engine]} is missing in the archive.")
    if not facts.has_objects and LISTED not in names:
        raise ArchiveError(f"{LISTED} is missing in the archive.")
    done(1.0)


def _compare(computed: IO[bytes], told: IO[bytes]) -> None:
    computed.seek(0)
    for line in computed:
        expected = told.readline()
        if line != expected:
            name = line.decode().split("  ", 1)[1].strip()
            raise ArchiveError(f"{name!r} is not what was backed up: its SHA-256 differs.")
    if told.readline():
        raise ArchiveError("The archive lacks members that its list of hashes names.")


def _sha256(content: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while piece := content.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _ensure_in_bucket(listed: IO[bytes]) -> None:
    sizes = {stored.key: stored.size_bytes for stored in open_store(settings.OBJECTS_URL).list("")}
    missing = [key for key, size_bytes in _entries(listed) if sizes.get(key) != size_bytes]
    if missing:
        named = "".join(f"\n    {key}" for key in missing[:MOST_NAMED])
        raise RestoreError(
            f"The archive lists its objects only, and {len(missing)} of them aren't in "
            f"{settings.OBJECTS_URL}, for example:{named}\nSet OBJECTS_URL to the bucket of the "
            "backup, or to a copy of it."
        )


def _entries(listed: IO[bytes]) -> Iterator[tuple[str, int]]:
    for line in listed:
        size_bytes, _, key = line.decode().strip().partition(" ")
        yield key, int(size_bytes)


def _extract(content: IO[bytes], path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        shutil.copyfileobj(content, file, PIECE_BYTES)


def _put_secrets(folder: Path) -> None:
    """Write the secrets to the data folder. The key of sessions is left alone if the environment
    sets it.
    """
    for name in SECRETS:
        source = folder / name
        if source.exists() and not (name == "secret-key" and env.text("SECRET_KEY")):
            source.replace(Path(settings.DATA_DIR) / name)

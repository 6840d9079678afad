"""The format: a tar of facts, rows, secrets and objects, and at its end the hash of each.

`backup.json` comes first and says what made the archive, `SHA256SUMS` comes last, as `sha256sum`
writes it. Members stand in a fixed order, objects in that of their keys, so that an archive of any
size is written and checked in one pass.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from django.conf import settings

from advisor.store.objects import is_key

FORMAT = 1
FACTS, SUMS = "backup.json", "SHA256SUMS"
LISTED = "objects.txt"
"""The member that replaces the objects of a bucket: the size in bytes and key of each, one a
line."""
OBJECTS = "objects/"
SECRETS = {name: f"secrets/{name}" for name in ("secret-key", "agent-token")}
"""File of the data folder -> member."""
ROWS = {"sqlite": "database.sqlite3", "postgresql": "database.dump"}
"""Database engine -> member."""
PIECE_BYTES = 1024 * 1024
MOST_FACTS_BYTES = 1024 * 1024
IN_MEMORY_BYTES = 8 * 1024 * 1024


class ArchiveError(ValueError):
    """Not an archive of ours, or a damaged one; says what is wrong with it."""


@dataclass(frozen=True)
class Facts:
    """Facts about an archive: what made it, and what is in it."""

    trimtab: str
    created_at: str
    """The time of the backup in UTC, ISO 8601."""
    engine: str
    """`sqlite` or `postgresql`."""
    migrations: list[str]
    """The `app.name` of each migration that the rows have seen."""
    has_objects: bool
    """False if the objects are in a bucket; then `objects.txt` lists them."""
    object_count: int
    """The number of objects that rows of the archive name."""
    format: int = FORMAT

    @classmethod
    def read(cls, text: bytes) -> Facts:
        """Parse `backup.json`. Raises ArchiveError."""
        try:
            document = json.loads(text)
            if document["format"] != FORMAT:
                raise ArchiveError(f"The archive has format {document['format']}, not {FORMAT}.")
            return cls(**document)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, ArchiveError):
                raise
            raise ArchiveError(f"{FACTS} can't be read: {error!r}") from None

    def write(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()


class Writer:
    """Writes members to a stream and keeps their hashes for the end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._tar = tarfile.TarFile(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)
        self._at = datetime.now(UTC).timestamp()
        self._sums = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - until `close`
            IN_MEMORY_BYTES, dir=str(settings.SCRATCH_DIR)
        )

    def add(self, name: str, source: IO[bytes]) -> None:
        """Add a member from a file that can be read twice: the first time for its size and hash."""
        digest, size_bytes = hashlib.sha256(), 0
        while piece := source.read(PIECE_BYTES):
            digest.update(piece)
            size_bytes += len(piece)
        source.seek(0)
        self._sums.write(f"{digest.hexdigest()}  {name}\n".encode())
        self._member(name, size_bytes, source)

    def add_bytes(self, name: str, content: bytes) -> None:
        self.add(name, io.BytesIO(content))

    def close(self) -> None:
        size_bytes = self._sums.tell()
        self._sums.seek(0)
        self._member(SUMS, size_bytes, self._sums)
        self._sums.close()
        self._tar.close()

    def _member(self, name: str, size_bytes: int, source: IO[bytes]) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mtime, entry.mode = size_bytes, self._at, 0o600
        self._tar.addfile(entry, source)


@dataclass
class ArchiveReader:
    """Reads an archive from a file, in one pass for each call."""

    path: Path
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = self.path.stat().st_size

    def members(self) -> Iterator[tuple[str, int, IO[bytes]]]:
        """Name, offset of its end in the archive, and content.

        Raises:
            ArchiveError: cut off, or a member that no backup writes.
        """
        last = ""
        try:
            with tarfile.open(self.path, mode="r:") as tar:
                while entry := tar.next():
                    tar.members.clear()  # type: ignore[attr-defined]
                    last = _in_order(entry, last)
                    content = tar.extractfile(entry)
                    if content is None:
                        raise ArchiveError(f"{entry.name!r} has no content.")
                    yield entry.name, entry.offset_data + entry.size, content
        except (tarfile.TarError, EOFError) as error:
            raise ArchiveError(f"{self.path} is not a whole tar archive: {error}") from None
        if last != SUMS:
            raise ArchiveError(f"{self.path} is cut off: {SUMS} is missing.")

    def facts(self) -> Facts:
        """Return the archive's facts. Raises ArchiveError."""
        for name, _, content in self.members():
            if name != FACTS:
                break
            return Facts.read(content.read(MOST_FACTS_BYTES))
        raise ArchiveError(f"{self.path} is not a backup: it doesn't begin with {FACTS}.")


def _in_order(entry: tarfile.TarInfo, last: str) -> str:
    """Return the member's name. Nothing may come twice, lead elsewhere or be anything but a
    file.
    """
    if not entry.isreg():
        raise ArchiveError(f"{entry.name!r} is not a plain file.")
    if (_place(entry.name), entry.name) <= (_place(last), last):
        raise ArchiveError(f"{entry.name!r} comes twice or too late.")
    return entry.name


def _place(name: str) -> int:
    """Return the position of a member of this name in the archive. Raises ArchiveError if it has
    none.
    """
    order = [[""], [FACTS], ROWS.values(), SECRETS.values(), [LISTED]]
    for place, names in enumerate(order):
        if name in names:
            return place
    if name == SUMS:
        return len(order) + 1
    if not (name.startswith(OBJECTS) and is_key(name.removeprefix(OBJECTS))):
        raise ArchiveError(f"{name!r} is no member of a backup.")
    return len(order)

"""Packs a folder as a tar.gz in parts: equal folders give equal parts."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

PART_BYTES = 32 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class ArchivePart:
    """One part of an archive, as a file that the caller may move."""

    path: Path
    sha256: str
    size_bytes: int


class Parts:
    """The parts of the archive of a folder or file, made one by one."""

    def __init__(self, source: Path, folder: Path, part_bytes: int = PART_BYTES) -> None:
        self._source, self._folder, self._part_bytes = source, folder, part_bytes

    def __iter__(self) -> Iterator[ArchivePart]:
        """Yield the parts, without links, owners, and times, which copying changes."""
        packed = _Buffer()
        number = 0
        with (
            gzip.GzipFile(
                fileobj=cast("io.BytesIO", packed), mode="wb", mtime=0, filename=""
            ) as compressed,
            tarfile.open(fileobj=compressed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path, name in files_of(self._source):
                with suppress(FileNotFoundError):
                    for _ in _added(archive, path, name):
                        while packed.size >= self._part_bytes:
                            yield self._part(number, packed.take(self._part_bytes))
                            number += 1
        while packed.size:
            yield self._part(number, packed.take(self._part_bytes))
            number += 1

    def _part(self, number: int, body: bytes) -> ArchivePart:
        path = self._folder / f"part-{number}"
        path.write_bytes(body)
        return ArchivePart(path, hashlib.sha256(body).hexdigest(), len(body))


def files_of(source: Path) -> Iterator[tuple[Path, str]]:
    """Yield each regular file and its name in the archive, in order."""
    if not source.is_dir():
        yield source, source.name
        return
    for path in sorted(source.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path, path.relative_to(source).as_posix()


def content_digest(source: Path) -> str:
    """Return the SHA-256 of all names and contents."""
    digest = hashlib.sha256()
    for path, name in files_of(source):
        with suppress(FileNotFoundError), path.open("rb") as file:
            own = hashlib.sha256()
            while piece := file.read(_PIECE_BYTES):
                own.update(piece)
            digest.update(f"{own.hexdigest()} {name}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _added(archive: tarfile.TarFile, path: Path, name: str) -> Iterator[None]:
    """Add a file piece by piece; a file that shrinks meanwhile is filled up with zeros."""
    with path.open("rb") as file:
        info = tarfile.TarInfo(name)
        info.size = os.fstat(file.fileno()).st_size
        archive.addfile(info)
        left = info.size
        while left:
            piece = file.read(min(left, _PIECE_BYTES)).ljust(min(left, _PIECE_BYTES), b"\0")
            archive.fileobj.write(piece)
            left -= len(piece)
            yield
        archive.fileobj.write(b"\0" * (-info.size % tarfile.BLOCKSIZE))
        yield


class _Buffer:
    """Takes what is written, and gives it back in pieces."""

    def __init__(self) -> None:
        self._held = bytearray()

    @property
    def size(self) -> int:
        return len(self._held)

    def write(self, body: bytes) -> int:
        self._held += body
        return len(body)

    def flush(self) -> None:
        pass

    def take(self, most: int) -> bytes:
        piece = bytes(self._held[:most])
        del self._held[:most]
        return piece

"""Unpacks an uploaded archive: files only, inside one folder, and never more than the bounds."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from advisor.importers.recording import NotImportableError
from advisor.importers.tally import Tally

_GIB = 1024**3
_PIECE_BYTES = 1024 * 1024
_LONGEST_HEADER_BYTES = 16 * 1024 * 1024
"""tarfile reads extended headers as a whole."""


@dataclass(frozen=True)
class Bounds:
    """What an archive may hold."""

    unpacked_bytes: int = 16 * _GIB
    files: int = 500_000
    depth: int = 40
    path_chars: int = 1_000


def unpack(
    packed: IO[bytes],
    into: Path,
    tally: Tally,
    alive: Callable[[], object] = lambda: None,
    bounds: Bounds = Bounds(),
) -> None:
    """Write the files of a tar.gz below `into`. Links, devices and paths that leave it are skipped.

    Raises:
        NotImportableError: not a tar.gz, damaged, or beyond the bounds.
    """
    try:
        with (
            _Bounded(packed, bounds.unpacked_bytes) as content,
            tarfile.open(fileobj=content, mode="r:") as archive,
        ):
            for number, member in enumerate(archive):
                if number >= bounds.files:
                    raise NotImportableError(f"the archive has more than {bounds.files:,} files")
                _write(archive, member, into, tally, bounds)
                # tarfile keeps every header otherwise.
                archive.members.clear()  # type: ignore[attr-defined]
                alive()
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise NotImportableError(f"the archive is damaged, or no tar.gz: {error}") from None
    except (ValueError, OverflowError, UnicodeError) as error:
        if isinstance(error, NotImportableError):
            raise
        raise NotImportableError(f"the archive is damaged: {error}") from None


def _write(
    archive: tarfile.TarFile, member: tarfile.TarInfo, into: Path, tally: Tally, bounds: Bounds
) -> None:
    if member.isdir():
        return
    path = inside(member.name, bounds)
    if not member.isreg():
        tally.skip("files", "links and devices aren't followed", 1, member.name)
        return
    content = archive.extractfile(member)
    if path is None or content is None:
        tally.skip("files", "a path that isn't one inside the folder", 1, member.name)
        return
    target = into / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(content, file, _PIECE_BYTES)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        tally.skip("files", "a path that another file has", 1, member.name)


def inside(name: str, bounds: Bounds) -> Path | None:
    """A foreign name as a path within a folder; None: it isn't one."""
    parts = PurePosixPath(name).parts
    is_safe = (
        bool(parts)
        and len(name) <= bounds.path_chars
        and len(parts) <= bounds.depth
        and not name.startswith("/")
        and not any(part == ".." or "\0" in part or len(part.encode()) > 250 for part in parts)
    )
    return Path(*parts) if is_safe else None


class _Bounded(gzip.GzipFile):
    """A gzip stream that ends with an error beyond a number of bytes."""

    def __init__(self, packed: IO[bytes], most_bytes: int) -> None:
        super().__init__(fileobj=packed, mode="rb")
        self._most_bytes = most_bytes

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _LONGEST_HEADER_BYTES:
            raise NotImportableError("the archive is damaged: a header of impossible size")
        piece = super().read(size)
        if self.tell() > self._most_bytes:
            raise NotImportableError(f"more than {self._most_bytes // _GIB} GiB unpacked")
        return piece

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset > self._most_bytes:
            raise NotImportableError(f"more than {self._most_bytes // _GIB} GiB unpacked")
        return super().seek(offset, whence)

"""The folder that an importer reads. Its content is hostile until it is read."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from advisor.importers.recording import NotImportableError

MOST_FILES = 500_000
"""27 days of a node's files each minute are 39,000."""
PIECE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Source:
    """A folder, or one file of it.

    Attributes:
        name: of the folder or file as the person has it.
        only: the one file; empty: all files of the folder.
    """

    folder: Path
    name: str
    only: str = ""

    @classmethod
    def at(cls, path: Path) -> Source:
        """The folder or file at this path."""
        if path.is_dir():
            return cls(path, path.resolve().name)
        return cls(path.parent, path.name, path.name)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Path within the folder -> bytes, of regular files. Links are never followed.

        Raises:
            NotImportableError: too many files.
        """
        if self.only:
            return {self.only: (self.folder / self.only).stat().st_size}
        found: dict[str, int] = {}
        for place, folders, names in os.walk(self.folder):
            folders.sort()
            for name in sorted(names):
                path = Path(place, name)
                if path.is_file() and not path.is_symlink():
                    found[path.relative_to(self.folder).as_posix()] = path.stat().st_size
            if len(found) > MOST_FILES:
                raise NotImportableError(f"more than {MOST_FILES:,} files. Import a part of them.")
        return found

    def head(self, path: str, most_bytes: int = 4096) -> bytes:
        with (self.folder / path).open("rb") as file:
            return file.read(most_bytes)

    def beginning(self, path: str, most_bytes: int = 4096) -> bytes:
        """Its first bytes, unpacked if it is gzip'd; empty if it can't be read."""
        opened = gzip.open if path.endswith(".gz") else open
        try:
            with opened(self.folder / path, "rb") as file:
                return bytes(file.read(most_bytes))
        except (OSError, EOFError, zlib.error):
            return b""

    def read(self, path: str, most_bytes: int) -> bytes:
        """The whole file, unpacked if it is gzip'd.

        Raises:
            NotImportableError: larger than that, or not gzip.
        """
        body = self.head(path, most_bytes + 1)
        if path.endswith(".gz"):
            body = _unpacked(body, most_bytes)
        if len(body) > most_bytes:
            raise NotImportableError(f"more than {most_bytes // 2**20} MiB")
        return body

    def lines(self, path: str) -> Iterator[bytes]:
        """The file in pieces that end with whole lines, except for lines longer than a piece."""
        opened = gzip.open if path.endswith(".gz") else open
        with opened(self.folder / path, "rb") as file:
            rest = b""
            while piece := file.read(PIECE_BYTES):
                whole, newline, rest_of = (rest + piece).rpartition(b"\n")
                if newline or len(rest_of) > PIECE_BYTES:
                    yield whole + newline if newline else rest_of
                    rest = rest_of if newline else b""
                else:
                    rest = rest_of
            if rest:
                yield rest


def _unpacked(body: bytes, most_bytes: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        return stream.decompress(body, most_bytes + 1)
    except zlib.error:
        raise NotImportableError("not gzip") from None

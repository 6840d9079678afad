"""The folder that an importer reads. Its content is hostile until it is read."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from advisor.importers.bounds import BOUNDS
from advisor.importers.gunzip import CutOffError, UnpackBudget, pieces
from advisor.importers.recording import NotImportableError
from advisor.importers.tally import Tally
from advisor.importers.text_encoding import to_utf8

MOST_FILES = 500_000
"""27 days of a node's files each minute are 39,000."""
PIECE_BYTES = 4 * 1024 * 1024


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
    def from_path(cls, path: Path) -> Source:
        """Return the folder or file at this path."""
        if path.is_dir():
            return cls(path, path.resolve().name)
        return cls(path.parent, path.name, path.name)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Return path within the folder -> bytes, of regular files. Links are never followed.

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
        """Return its first bytes, unpacked if it is gzip'd; empty if it can't be read."""
        try:
            return self._start(path, most_bytes)
        except (OSError, NotImportableError):
            return b""

    def text_beginning(self, path: str, most_bytes: int = 4096) -> str:
        """Return the text that it begins with, unpacked if it is gzip'd."""
        first = b"".join(to_utf8([self.beginning(path, most_bytes)]))
        return first.decode(errors="replace")

    def read(self, path: str, most_bytes: int) -> bytes:
        """Return the whole file, unpacked if it is gzip'd: of one that is cut off what it has.

        Raises:
            NotImportableError: larger than that, or not gzip.
        """
        body = self._start(path, most_bytes + 1)
        if len(body) > most_bytes:
            raise NotImportableError(f"more than {most_bytes // 2**20} MiB")
        return body

    def lines(self, path: str, tally: Tally) -> Iterator[bytes]:
        """Yield the text in pieces that end with whole lines, except for lines longer than a piece.

        A gzip'd file that is damaged, or too large with the others, ends there, and is counted.
        """
        rest = b""
        try:
            for piece in to_utf8(self.pieces(path)):
                whole, newline, rest_of = (rest + piece).rpartition(b"\n")
                if newline or len(rest_of) > PIECE_BYTES:
                    yield whole + newline if newline else rest_of
                    rest = rest_of if newline else b""
                else:
                    rest = rest_of
        except NotImportableError as error:
            tally.skip("files", f"can't be read to their end: {error}", 1, path)
        if rest:
            yield rest

    def _start(self, path: str, most_bytes: int) -> bytes:
        """Return its first bytes. Raises NotImportableError: it isn't gzip."""
        if not path.endswith(".gz"):
            return self.head(path, most_bytes)
        parts, left = [], most_bytes
        with suppress(CutOffError), closing(self.pieces(path)) as unpacked:
            for piece in unpacked:
                parts.append(piece[:left])
                left -= len(parts[-1])
                if not left:
                    break
        return b"".join(parts)

    def pieces(self, path: str) -> Generator[bytes]:
        """Yield the content, in large pieces. Raises NotImportableError, CutOffError."""
        with (self.folder / path).open("rb") as file:
            if not path.endswith(".gz"):
                while piece := file.read(PIECE_BYTES):
                    yield piece
                return
            yield from pieces(file, self._unpacked)

    @cached_property
    def _unpacked(self) -> UnpackBudget:
        """Return the budget of all gzip'd files together: as large as an archive, however small
        they are.
        """
        return UnpackBudget(BOUNDS.unpacked_bytes)

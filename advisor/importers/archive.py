"""Unpacks an uploaded archive: plain files only, inside one folder, and never more than the bounds.

Python's `tarfile` reads single headers. What follows from them is decided here: `tarfile` itself
follows the maps of sparse files, keeps headers for all members, and calls itself for extended ones.
Each block of the archive is read once, and nothing is written that isn't in it as a whole.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from advisor.importers.bounds import BOUNDS, Bounds, ensure_space, in_gib, to_safe_path
from advisor.importers.gunzip import UnpackBudget, pieces
from advisor.importers.recording import NotImportableError
from advisor.importers.tally import Tally

_BLOCK = tarfile.BLOCKSIZE
_DISK_BLOCK = 4096
"""Disks give out no less."""
_LOOK_BYTES = 64 * 1024 * 1024
"""The bytes that are written between two looks at the space that is left."""
_MOST_EXTENDED_BYTES = 1024 * 1024
"""The most bytes of an extended header: a path takes some KB, attributes of a file system up to
64."""
_PAX, _PAX_OTHER = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE), (tarfile.XGLTYPE,)
_LONG_NAME, _LONG_LINK = tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK
_EXTENDED = (*_PAX, *_PAX_OTHER, _LONG_NAME, _LONG_LINK)
_WITHOUT_CONTENT = (
    *(tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE),
    *(tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE),
)
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_MAP_GOES_ON, _MORE_MAP_GOES_ON = 482, 504
"""The places where an old header of a sparse file, and each block of its map, say that a block
follows."""
_RECORD = re.compile(rb"([1-9][0-9]{0,6}) ")
_SIZE = re.compile(rb"[0-9]{1,19}")
_SPARSE = b"GNU.sparse."


def unpack(
    packed: IO[bytes],
    into: Path,
    tally: Tally,
    alive: Callable[[], object] = lambda: None,
    bounds: Bounds = BOUNDS,
) -> None:
    """Write the files of a tar.gz below `into`, a folder of its own.

    Links, devices, sparse files, names that come twice and paths that leave the folder are skipped
    and counted.

    Raises:
        NotImportableError: not a tar.gz, damaged, or beyond the bounds.
    """
    into.mkdir(parents=True, exist_ok=True)
    content = _Content(pieces(packed, UnpackBudget(bounds.unpacked_bytes)))
    target = _Target(into, bounds, alive)
    for member in _members(content, bounds):
        alive()
        why = member.refused or target.add(member, content)
        if why:
            tally.skip("files", why, 1, member.path)
        content.skip(member.size - member.taken)


class _Content:
    """The content of a gzip stream, read once from its beginning to its end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held, self._at = b"", 0

    def some(self, most: int) -> bytes:
        """Return at least one byte of what is next. Empty: it has ended."""
        while self._at == len(self._held):
            if not (held := next(self._pieces, b"")):
                return b""
            self._held, self._at = held, 0
        piece = self._held[self._at : self._at + most]
        self._at += len(piece)
        return piece

    def next(self, size: int) -> bytes:
        """Return so many bytes; fewer where it ends."""
        parts = []
        while size and (piece := self.some(size)):
            parts.append(piece)
            size -= len(piece)
        return b"".join(parts)

    def read_exactly(self, size: int) -> Iterator[bytes]:
        """Yield so many bytes. Raises NotImportableError: there are fewer."""
        while size:
            if not (piece := self.some(size)):
                raise NotImportableError("the archive is damaged: it ends within a file")
            size -= len(piece)
            yield piece

    def skip(self, size: int) -> None:
        for _ in self.read_exactly(size):
            pass


@dataclass
class _Member:
    """One entry. `taken`: bytes of its content, which has whole blocks, that were read."""

    path: str
    length: int
    size: int
    refused: str = ""
    taken: int = 0


@dataclass
class _Said:
    """The facts that extended headers state of the member after them."""

    path: str | None = None
    length: int | None = None
    is_sparse: bool = False


def _members(content: _Content, bounds: Bounds) -> Iterator[_Member]:
    """Yield each entry but folders, before what is in it is read.

    Raises:
        NotImportableError: damaged, or more headers than the bounds allow.
    """
    headers, said = _Headers(content, bounds), _Said()
    while header := headers.next():
        if header.type in _EXTENDED:
            _add(said, header.type, headers.extension(header.size))
            continue
        member, said = _member(header, said), _Said()
        if header.type == tarfile.GNUTYPE_SPARSE:
            headers.skip_map()
        if member.refused or not header.isdir():
            yield member


class _Headers:
    """Reads headers and counts their blocks: each costs time, and none needs to write anything."""

    def __init__(self, content: _Content, bounds: Bounds) -> None:
        self._content = content
        self._left = self._most = bounds.header_blocks
        self._block = b""

    def next(self) -> tarfile.TarInfo | None:
        """Return the next header; None: the archive has ended."""
        self._block = self._taken(_BLOCK)
        try:
            return tarfile.TarInfo.frombuf(self._block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            is_begun = bool(self._block) or self._left + 1 < self._most
            if is_begun and not self._block.strip(b"\0"):
                return None
            raise NotImportableError(f"the archive is damaged, or no tar.gz: {error}") from None
        except (ValueError, OverflowError) as error:
            raise NotImportableError(f"the archive is damaged: {error}") from None

    def extension(self, size: int) -> bytes:
        """Return the content of an extended header."""
        if not 0 <= size <= _MOST_EXTENDED_BYTES:
            raise NotImportableError("the archive is damaged: a header of impossible size")
        return self._taken(_in_blocks(size))[:size]

    def skip_map(self) -> None:
        """Read the blocks between the header of a sparse file and its content."""
        goes_on = self._block[_MAP_GOES_ON]
        while goes_on:
            goes_on = self._taken(_BLOCK).ljust(_BLOCK, b"\0")[_MORE_MAP_GOES_ON]

    def _taken(self, size: int) -> bytes:
        self._left -= size // _BLOCK
        if self._left < 0:
            raise NotImportableError(f"the archive has more than {self._most:,} blocks of headers")
        return self._content.next(size)


def _add(said: _Said, kind: bytes, body: bytes) -> None:
    if kind == _LONG_NAME:
        said.path = body.partition(b"\0")[0].decode("utf-8", "surrogateescape")
    elif kind in _PAX:
        for key, value in _records(body):
            if key == b"path":
                said.path = value.decode("utf-8", "surrogateescape")
            elif key == b"size":
                if not _SIZE.fullmatch(value):
                    raise NotImportableError("the archive is damaged: a file of impossible size")
                said.length = int(value)
            elif key.startswith(_SPARSE):
                said.is_sparse = True


def _records(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield those of a PAX header: each is `LENGTH KEY=VALUE` and the end of a line."""
    at = 0
    while at < len(body):
        found = _RECORD.match(body, at)
        end = at + int(found[1]) if found else 0
        if found is None or not found.end() < end <= len(body) or body[end - 1 : end] != b"\n":
            raise NotImportableError("the archive is damaged: an extended header")
        key, _, value = body[found.end() : end - 1].partition(b"=")
        yield key, value
        at = end


def _member(header: tarfile.TarInfo, said: _Said) -> _Member:
    """Return the entry of a header. Raises NotImportableError: it has an impossible size."""
    length = header.size if said.length is None else said.length
    if length < 0:
        raise NotImportableError("the archive is damaged: a file of impossible size")
    has_content = header.type not in _WITHOUT_CONTENT
    path = header.name if said.path is None else said.path
    member = _Member(path, length, _in_blocks(length) if has_content else 0)
    if said.is_sparse or header.type == tarfile.GNUTYPE_SPARSE:
        member.refused = "sparse files aren't unpacked"
    elif header.type not in (*_PLAIN, tarfile.DIRTYPE):
        member.refused = "links and devices aren't followed"
    return member


def _in_blocks(size: int, block: int = _BLOCK) -> int:
    return -(-size // block) * block


class _Target:
    """The folder, and what was written into it so far: in blocks, as the disk counts it."""

    def __init__(self, folder: Path, bounds: Bounds, alive: Callable[[], object]) -> None:
        self._folder, self._bounds, self._alive = folder, bounds, alive
        self._bytes = self._inodes = self._since_look = 0
        self._look()

    def add(self, member: _Member, content: _Content) -> str:
        """Write a file; return why it can't be one, if it can't. Raises NotImportableError."""
        path = to_safe_path(member.path, self._bounds)
        if path is None:
            return "a path that isn't one inside the folder"
        try:
            file = self._created(path)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            return "a path that another file has"
        with file:
            self._count(path.name, member.length)
            for piece in content.read_exactly(member.length):
                member.taken += len(piece)
                self._look_after(len(piece))
                file.write(piece)
                self._alive()
        return ""

    def _created(self, path: Path) -> IO[bytes]:
        """Make a new file, never one that is there, and the folders that it needs."""
        self._ensure_inodes(1)
        try:
            return (self._folder / path).open("xb")
        except FileNotFoundError:
            for parent in list(path.parents)[-2::-1]:
                self._make(parent)
        return (self._folder / path).open("xb")

    def _make(self, path: Path) -> None:
        self._ensure_inodes(2)
        try:
            (self._folder / path).mkdir()
        except FileExistsError:
            return
        self._count(path.name, _DISK_BLOCK)

    def _ensure_inodes(self, more: int) -> None:
        if self._inodes + more > self._bounds.files:
            raise NotImportableError(
                f"the archive has more than {self._bounds.files:,} files and folders"
            )

    def _count(self, name: str, size: int) -> None:
        """Count what a new file or folder takes, with its entry, before anything is in it."""
        self._inodes += 1
        self._bytes += _in_blocks(size, _DISK_BLOCK) + 2 * len(name.encode()) + 32
        if self._bytes > self._bounds.unpacked_bytes:
            raise NotImportableError(f"more than {in_gib(self._bounds.unpacked_bytes)} unpacked")
        self._look_after(_DISK_BLOCK)

    def _look_after(self, size: int) -> None:
        self._since_look += size
        if self._since_look > _LOOK_BYTES:
            self._look()

    def _look(self) -> None:
        self._since_look = 0
        ensure_space(self._folder, self._bounds, _LOOK_BYTES)

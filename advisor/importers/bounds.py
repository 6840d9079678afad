"""The bounds of what an import may take of a machine: bytes and inodes written, space left."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from advisor.importers.recording import NotImportableError

_GIB = 1024**3


class NoSpaceError(NotImportableError):
    """The disk is nearly full: the same can be imported later."""


@dataclass(frozen=True)
class Bounds:
    """The bounds of what an archive or a bucket's folder may hold, and of what unpacking it may
    take.

    Attributes:
        unpacked_bytes: read of it, and written to the disk.
        files: files and folders together: each is an inode.
        header_blocks: of an archive, also of members that aren't unpacked.
        free_bytes, free_share: of the disk, what must be left; the larger one, but of a large disk
            at most `most_free_bytes`. The share is of its inodes, too.
    """

    unpacked_bytes: int = 16 * _GIB
    files: int = 500_000
    depth: int = 40
    path_chars: int = 1_000
    header_blocks: int = 2_000_000
    free_bytes: int = _GIB
    free_share: float = 0.05
    most_free_bytes: int = 20 * _GIB


BOUNDS = Bounds()


def to_safe_path(name: str, bounds: Bounds) -> Path | None:
    """Return a foreign name as a path within a folder; None: it isn't one."""
    parts = PurePosixPath(name).parts
    is_safe = (
        bool(parts)
        and len(name) <= bounds.path_chars
        and len(parts) <= bounds.depth
        and not name.startswith("/")
        and "\0" not in name
        and ".." not in parts
    )
    try:
        is_short = all(len(part.encode()) <= 250 for part in parts)
    except UnicodeEncodeError:  # bytes that are no UTF-8
        return None
    return Path(*parts) if is_safe and is_short else None


def ensure_space(folder: Path, bounds: Bounds, needed_bytes: int) -> None:
    """Refuse to write so much where others need the space that would be left.

    Raises:
        NoSpaceError
    """
    disk = os.statvfs(folder)
    share = int(disk.f_blocks * disk.f_frsize * bounds.free_share)
    kept = max(bounds.free_bytes, min(share, bounds.most_free_bytes))
    has_inodes = not disk.f_files or disk.f_favail >= disk.f_files * bounds.free_share
    if disk.f_bavail * disk.f_frsize - needed_bytes < kept or not has_inodes:
        raise NoSpaceError(
            f"the disk of the service is nearly full: {in_gib(kept)} and {bounds.free_share:.0%} "
            "of its files must stay free. Free some of it, then import again"
        )


def in_gib(size: int) -> str:
    return f"{size / _GIB:.3g} GiB"

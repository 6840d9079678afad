"""Where the bytes of samples lie: a folder by default, S3 for many machines."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

_KEY = re.compile(r"[A-Za-z0-9_\-]+([./][A-Za-z0-9_\-]+)*\Z")
_TEMPORARY = ".tmp-"


class ObjectMissingError(KeyError):
    """No object has this key."""


class ObjectStore(Protocol):
    """Whole objects by key. Keys are safe characters, `/` and single dots between them."""

    def put(self, key: str, body: bytes) -> None:
        """Durable when it returns; readers see the old object or the new one, never a half."""

    def get(self, key: str) -> bytes:
        """Raises `ObjectMissingError`."""

    def exists(self, key: str) -> bool: ...

    def delete(self, key: str) -> None:
        """Deleting what isn't there is fine."""

    def list(self, prefix: str) -> Iterator[str]:
        """The keys that begin with `prefix`, in order."""


def checked(key: str) -> str:
    """The key itself.

    Raises:
        ValueError: it could leave its folder or can't be stored everywhere.
    """
    if len(key) > 512 or not _KEY.match(key):
        raise ValueError(f"not an object key: {key[:80]!r}")
    return key


class FolderStore:
    """Objects as files below one folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def put(self, key: str, body: bytes) -> None:
        path = self.folder / checked(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=_TEMPORARY, delete=False) as file:
            try:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).replace(path)
            except OSError:  # A full disk should not also keep the half that fitted.
                Path(file.name).unlink(missing_ok=True)
                raise
        _sync_folder(path.parent)

    def get(self, key: str) -> bytes:
        try:
            return (self.folder / checked(key)).read_bytes()
        except FileNotFoundError:
            raise ObjectMissingError(key) from None

    def exists(self, key: str) -> bool:
        return (self.folder / checked(key)).is_file()

    def delete(self, key: str) -> None:
        (self.folder / checked(key)).unlink(missing_ok=True)

    def list(self, prefix: str) -> Iterator[str]:
        top = self.folder / prefix.rpartition("/")[0]
        files = (p for p in sorted(top.rglob("*")) if p.is_file())
        for path in files:
            key = path.relative_to(self.folder).as_posix()
            if key.startswith(prefix) and not path.name.startswith(_TEMPORARY):
                yield key


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, too: a rename alone may be lost with the power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_store(url: str) -> ObjectStore:
    """`s3://bucket/prefix`, `file:///path`, or a plain path.

    Raises:
        ValueError: another scheme.
    """
    parts = urlsplit(url)
    if parts.scheme == "s3":
        from advisor.store.s3 import S3Store

        return S3Store(parts.netloc, parts.path.strip("/"))
    if parts.scheme not in ("", "file"):
        raise ValueError(f"objects can't be kept in {parts.scheme}://; use s3:// or a folder")
    return FolderStore(unquote(parts.path))

"""Where the bytes of samples lie: a folder by default, S3 for many machines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol

_KEY = re.compile(r"[A-Za-z0-9_\-]+([./][A-Za-z0-9_\-]+)*\Z")


class ObjectMissingError(KeyError):
    """No object has this key."""


@dataclass(frozen=True)
class StoredObject:
    """An object in a listing; `changed_at` is UTC, by the store's clock."""

    key: str
    size_bytes: int
    changed_at: datetime


class ObjectReader(Protocol):
    """All that reading a run needs of a store."""

    def get(self, key: str) -> bytes:
        """Raises `ObjectMissingError`."""


class ObjectStore(ObjectReader, Protocol):
    """Whole objects by key. Keys are safe characters, `/` and single dots between them."""

    def put(self, key: str, body: bytes) -> None:
        """Durable when it returns; readers see the old object or the new one, never a half."""

    def put_file(self, key: str, file: BinaryIO) -> None:
        """`put` of a whole file, from its begin, that need not fit into memory."""

    def open(self, key: str) -> BinaryIO:
        """To be read in pieces, and closed. Raises `ObjectMissingError`."""

    def exists(self, key: str) -> bool: ...

    def delete(self, key: str) -> None:
        """Deleting what isn't there is fine."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """The objects whose keys begin with `prefix`, in order."""

    def tidy(self, before: datetime) -> None:
        """Delete what interrupted writes and deleted objects left behind, if older than `before`.

        It was never an object: halves of writes, folders without a file.
        """


def checked(key: str) -> str:
    """The key itself.

    Raises:
        ValueError: it could leave its folder or can't be stored everywhere.
    """
    if len(key) > 512 or not _KEY.match(key):
        raise ValueError(f"not an object key: {key[:80]!r}")
    return key

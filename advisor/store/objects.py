"""The interface of object stores: a folder by default, S3 for many machines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO, BinaryIO, Protocol

_KEY = re.compile(r"[A-Za-z0-9_\-]+([./][A-Za-z0-9_\-]+)*\Z")


class ObjectMissingError(KeyError):
    """No object has this key."""


class StoreAwayError(RuntimeError):
    """The store doesn't answer or refuses our credentials: no object can be used at present."""


@dataclass(frozen=True)
class StoredObject:
    """An object in a listing; `changed_at` is UTC, by the store's clock."""

    key: str
    size_bytes: int
    changed_at: datetime


class ObjectReader(Protocol):
    """The part of a store that reading a run needs."""

    def get(self, key: str) -> bytes:
        """Return the object. Raises `ObjectMissingError`."""


class Objects(ObjectReader, Protocol):
    """The part that storing and reading a run needs."""

    def put(self, key: str, body: bytes) -> None:
        """Store an object, durable when it returns. Readers see the old or the new one, never a
        partial one.
        """


class ObjectStore(Objects, Protocol):
    """Whole objects by key. Keys are safe characters, `/` and single dots between them."""

    def put_file(self, key: str, file: IO[bytes]) -> None:
        """`put` of a whole file, from its beginning. It needn't fit into memory."""

    def is_new(self, key: str) -> bool:
        """Return whether there is no such object. True can be wrong where asking is dear."""

    def put_all(self, bodies: Sequence[tuple[str, bytes]]) -> list[Exception | None]:
        """`put` many at once.

        Returns:
            For each in turn what `put` would raise; None: it is written. Where the store can't be
            used, the rest isn't tried.
        """

    def open(self, key: str) -> BinaryIO:
        """Open an object to read it in pieces. The caller closes it. Raises
        `ObjectMissingError`."""

    def exists(self, key: str) -> bool: ...

    def delete(self, key: str) -> None:
        """Delete an object. A missing one is not an error."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects whose keys begin with `prefix`, in order."""

    def tidy(self, before: datetime) -> None:
        """Delete remains of interrupted writes and deleted objects, if older than `before`.

        These are not objects: partial writes, empty folders.
        """


def check_key(key: str) -> str:
    """Return the valid key itself.

    Raises:
        ValueError: it could leave its folder, or not all stores can store it.
    """
    if not is_key(key):
        raise ValueError(f"not an object key: {key[:80]!r}")
    return key


def is_key(text: str) -> bool:
    """Return whether an object can have this key: it stays in its folder and can be stored
    everywhere.
    """
    return len(text) <= 512 and _KEY.match(text) is not None

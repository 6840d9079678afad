"""Objects as files: the default, for one machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from advisor.store.objects import ObjectMissingError, checked

_TEMPORARY = ".tmp-"


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
